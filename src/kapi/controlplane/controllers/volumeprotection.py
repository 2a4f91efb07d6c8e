"""Claims, volumes and volume classes in use are not deleted: a finalizer on each, taken off when nobody needs it.

Admission puts the finalizers on new objects (`server.admission.inuse`); here they are put on older ones, and taken off
when an object is to go and nothing uses it. A claim is used by the Pods that mount it, a volume while it is bound, a
volume class by the claims and volumes that name it. Reads the watch caches; writes finalizers only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import is_deleting
from kapi.controller.objects.finalizer import add_finalizer, has_finalizer, remove_finalizer
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.house import itself_unless_gone
from kapi.controlplane.controllers.inventory import path_of
from kapi.registry.quota.scopes import volume_classes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Result
    from kapi.controlplane.controllers.house import House

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
CLASS_FINALIZER: Final = "kubernetes.io/vac-protection"

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
CLASSES: Final = "volumeattributesclasses.storage.k8s.io"

_NOTHING: Final[tuple[Request, ...]] = ()


def protect_claims(house: House) -> None:
    """Keep claims that Pods use."""
    usage = ClaimUsage(house)
    protector = Protector(house, CLAIMS, ("v1", "PersistentVolumeClaim"), CLAIM_FINALIZER, usage)
    house.add(
        "persistentvolumeclaim-protection-controller",
        protector,
        hear={CLAIMS: itself_unless_gone, "pods": usage.heard_pod},
        initial=usage.started,
    )


def protect_volumes(house: House) -> None:
    """Keep volumes that are bound."""
    protector = Protector(house, VOLUMES, ("v1", "PersistentVolume"), VOLUME_FINALIZER, BoundVolumes())
    house.add(
        "persistentvolume-protection-controller",
        protector,
        hear={VOLUMES: itself_unless_gone},
        initial=house.every(VOLUMES),
    )


def protect_classes(house: House) -> None:
    """Keep volume classes that claims or volumes name."""
    usage = ClassUsage(house)
    kind = ("storage.k8s.io/v1", "VolumeAttributesClass")
    protector = Protector(house, CLASSES, kind, CLASS_FINALIZER, usage)
    house.add(
        "volumeattributesclass-protection-controller",
        protector,
        hear={CLASSES: itself_unless_gone, CLAIMS: usage.heard_user, VOLUMES: usage.heard_user},
        initial=house.every(CLASSES),
    )


class Usage(Protocol):
    """Who may say whether an object is in use."""

    def is_used(self, key: Request, obj: Object) -> bool:
        """Whether an object that is to go is still needed. Answers without waiting."""
        ...

    def settled(self, key: Request) -> None:
        """The question is not open (any more) for this object."""
        ...


class Protector:
    """Has each object of a resource carry its finalizer until it is to go and is not used."""

    def __init__(self, house: House, resource: str, kind: tuple[str, str], finalizer: str, usage: Usage) -> None:
        self._house = house
        self._resource = resource
        self._kind = kind
        self._finalizer = finalizer
        self._usage = usage

    async def reconcile(self, request: Request) -> Result | None:
        """Put the finalizer on, or take it off."""
        obj = self._house.inventory.get(self._resource, *request)
        if obj is None or not is_deleting(obj) or not has_finalizer(obj, self._finalizer):
            self._usage.settled(request)
            if obj is not None and not is_deleting(obj) and add_finalizer(obj, self._finalizer):
                await self._write(obj)
        elif not self._usage.is_used(request, obj):
            self._usage.settled(request)
            remove_finalizer(obj, self._finalizer)
            await self._write(obj)
        return None

    async def _write(self, obj: Object) -> None:
        """Update it as it was read. One that was changed since has been heard of, and is looked at again."""
        served = self._house.inventory.of_kind(*self._kind)
        assert served is not None
        metadata = obj["metadata"]
        path = path_of(served, metadata.get("namespace", ""), metadata["name"])
        with contextlib.suppress(NotFound, Conflict):
            await self._house.client.rest.request("PUT", path, body=obj)


# -- volumes ----------------------------------------------------------------------------------------------------------


class BoundVolumes:
    """A volume is in use while it is bound to a claim."""

    def is_used(self, key: Request, obj: Object) -> bool:
        """Whether its phase says so."""
        return bool(obj.get("status", {}).get("phase") == "Bound")

    def settled(self, key: Request) -> None:
        """Nothing is remembered."""


# -- claims -----------------------------------------------------------------------------------------------------------


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
    """The names of the claims a Pod mounts, those generated for its ephemeral volumes among them."""
    body = item.body
    # Most Pods have none, and need not be decoded to know.
    if b'"persistentVolumeClaim"' not in body and b'"ephemeral"' not in body:
        return
    for volume in _decode_volumes(b"{" + body).spec.volumes or ():
        if volume.claim is not None:
            yield volume.claim.name
        elif bytes(volume.ephemeral) not in {b"", b"null"}:
            yield f"{item.name}-{volume.name}"


class ClaimUsage:
    """Which Pods mount which claim.

    `_pods` has the claims that are mounted, with the names of the Pods: it changes when a Pod comes or goes only, as
    the volumes of a Pod never change. `_awaited` are claims that are to go and may not: only for them are other changes
    of Pods of interest.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._pods: dict[Request, set[str]] = {}
        self._awaited: set[Request] = set()

    def started(self) -> Iterable[Request]:
        """Learn which Pods there are; look at every claim."""
        for item in self._house.inventory.items("pods"):
            self._note(item)
        return self._house.every(CLAIMS)()

    def heard_pod(self, event: Event) -> Iterable[Request]:
        """A claim that waits for this Pod may go when it is gone, or has ended."""
        item = event.item
        if event.deleted:
            self._forget(item)
        elif event.previous is None:
            self._note(item)
        if not self._awaited:
            return _NOTHING
        claims = (Request(item.namespace, claim) for claim in claims_of(item))
        return [claim for claim in claims if claim in self._awaited]

    def _note(self, item: Item) -> None:
        for claim in claims_of(item):
            self._pods.setdefault(Request(item.namespace, claim), set()).add(item.name)

    def _forget(self, item: Item) -> None:
        for claim in claims_of(item):
            key = Request(item.namespace, claim)
            names = self._pods.get(key)
            if names is not None:
                names.discard(item.name)
                if not names:
                    del self._pods[key]

    def is_used(self, key: Request, obj: Object) -> bool:
        """Whether a Pod that has a node mounts it."""
        self._awaited.add(key)
        pods = (self._house.inventory.get("pods", key.namespace, name) for name in self._pods.get(key, ()))
        return any(pod is not None and uses_claim(pod, obj) for pod in pods)

    def settled(self, key: Request) -> None:
        """No Pod is of interest to this claim."""
        self._awaited.discard(key)


def uses_claim(pod: Object, claim: Object) -> bool:
    """Whether a claim must stay for this Pod.

    A Pod without a node cannot have begun to use it. One that has run to its end still does, as its node may be at the
    volume yet; only for a volume made for the Pod alone it is enough that the node is done with the Pod.
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
            and _is_controlled_by(claim, pod)
        ):
            return True
    return False


def _is_shut_down(pod: Object) -> bool:
    """Whether the node is done with it, or somebody has insisted: it is deleted but for its finalizers."""
    return is_deleting(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0


def _is_controlled_by(obj: Object, owner: Object) -> bool:
    owners: list[dict[str, Any]] = obj["metadata"].get("ownerReferences") or []
    return any(one.get("controller") and one.get("uid") == owner["metadata"]["uid"] for one in owners)


# -- volume classes ---------------------------------------------------------------------------------------------------


class ClassUsage:
    """Which claims and volumes name a class: looked up when one is to go, which is seldom."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._awaited: set[Request] = set()

    def heard_user(self, event: Event) -> Iterable[Request]:
        """A class that waits may go when the last that named it is gone, or names another."""
        return list(self._awaited) if self._awaited else _NOTHING

    def is_used(self, key: Request, obj: Object) -> bool:
        """Whether any claim or volume names it."""
        self._awaited.add(key)
        mention = f'"{key.name}"'.encode()
        inventory = self._house.inventory
        return any(
            mention in item.body and key.name in volume_classes_of(inventory.decode(resource, item))
            for resource in (VOLUMES, CLAIMS)
            for item in inventory.items(resource)
        )

    def settled(self, key: Request) -> None:
        """No claim or volume is of interest to this class."""
        self._awaited.discard(key)
