"""The persistentvolumeclaim-protection controller: a claim that a Pod mounts is not deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kapi.api.meta import is_deleting
from kapi.controller.objects.ownership import is_controlled_by
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_unless_deleted
from kapi.controlplane.controllers.volumeprotection.protector import Protector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controlplane.controllers.context import ControllerContext

FINALIZER: Final = "kubernetes.io/pvc-protection"
CLAIMS: Final = "persistentvolumeclaims"


def add_persistentvolumeclaim_protection_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    usage = ClaimUsage(context)
    context.add(
        names.PERSISTENTVOLUMECLAIM_PROTECTION,
        Protector(context, CLAIMS, FINALIZER, usage),
        enqueue={CLAIMS: enqueue_unless_deleted, "pods": usage.enqueue_claims_of_pod},
        initial=usage.initial,
    )


class _ClaimSource(msgspec.Struct):
    name: str = msgspec.field(name="claimName", default="")


class _Volume(msgspec.Struct):
    name: str = ""
    claim: _ClaimSource | None = msgspec.field(name="persistentVolumeClaim", default=None)
    ephemeral: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Spec(msgspec.Struct):
    volumes: list[_Volume] | None = None


class _Pod(msgspec.Struct):
    spec: _Spec


_decode_volumes = msgspec.json.Decoder(_Pod).decode


def claims_of(item: Item) -> Iterator[str]:
    """The names of the claims a Pod mounts, including those generated for its ephemeral volumes."""
    body = item.body
    # Most Pods have none, which shows without decoding.
    if b'"persistentVolumeClaim"' not in body and b'"ephemeral"' not in body:
        return
    for volume in _decode_volumes(b"{" + body).spec.volumes or ():
        if volume.claim is not None:
            yield volume.claim.name
        elif bytes(volume.ephemeral) not in {b"", b"null"}:
            yield f"{item.name}-{volume.name}"


class ClaimUsage:
    """The Pods that mount each claim.

    `_pods` maps mounted claims to the names of their Pods. It changes only when a Pod is created or deleted, as the
    volumes of a Pod never change. `_waiting` are claims that are being deleted and in use: only they are enqueued when
    a Pod changes.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pods: dict[Request, set[str]] = {}
        self._waiting: set[Request] = set()

    def initial(self) -> Iterable[Request]:
        """Index the Pods there are; every claim is reconciled."""
        for item in self._context.view.items("pods"):
            self._add(item)
        return self._context.all_of(CLAIMS)()

    def enqueue_claims_of_pod(self, event: Event) -> Iterable[Request]:
        """The waiting claims that the Pod mounts: it may be deleted, or terminated."""
        item = event.item
        if event.deleted:
            self._remove(item)
        elif event.previous is None:
            self._add(item)
        if not self._waiting:
            return ()
        claims = (Request(item.namespace, claim) for claim in claims_of(item))
        return [claim for claim in claims if claim in self._waiting]

    def _add(self, item: Item) -> None:
        for claim in claims_of(item):
            self._pods.setdefault(Request(item.namespace, claim), set()).add(item.name)

    def _remove(self, item: Item) -> None:
        for claim in claims_of(item):
            key = Request(item.namespace, claim)
            pods = self._pods.get(key)
            if pods is not None:
                pods.discard(item.name)
                if not pods:
                    del self._pods[key]

    def is_used(self, key: Request, obj: Object) -> bool:
        """Return True if a scheduled Pod mounts the claim."""
        self._waiting.add(key)
        pods = (self._context.view.get("pods", key.namespace, name) for name in self._pods.get(key, ()))
        return any(pod is not None and uses_claim(pod, obj) for pod in pods)

    def release(self, key: Request) -> None:
        """Stop enqueueing the claim when Pods change."""
        self._waiting.discard(key)


def uses_claim(pod: Object, claim: Object) -> bool:
    """Return True if a Pod uses a claim.

    A Pod that is not scheduled cannot use it yet. A terminated Pod still does, as its kubelet may not have unmounted
    the volume yet; only for a volume that was made for the Pod alone it is enough that the kubelet is done with the
    Pod.
    """
    spec, name = pod["spec"], claim["metadata"]["name"]
    if not spec.get("nodeName"):
        return False
    for volume in spec.get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        if source is not None and source.get("claimName") == name:
            return True
        if (
            volume.get("ephemeral") is not None
            and not _is_shut_down(pod)
            and f"{pod['metadata']['name']}-{volume['name']}" == name
            and is_controlled_by(claim, pod)
        ):
            return True
    return False


def _is_shut_down(pod: Object) -> bool:
    """Return True if only finalizers keep the Pod: its kubelet is done, or its deletion was forced."""
    return is_deleting(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0
