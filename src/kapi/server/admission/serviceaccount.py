"""ServiceAccount: every Pod runs as a ServiceAccount that exists, with its token and its image pull secrets.

A Pod that names none gets `default`. Unless the Pod or the account says otherwise, a projected volume with a token, the
certificate of the API server and the name of the namespace is mounted in each container. Mirror Pods are left as they
are, but may use neither accounts nor secrets.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import PlainError
from kapi.api.meta import GroupResource
from kapi.api.names import generate_name
from kapi.registry.initializers import is_unseen
from kapi.registry.kinds.core.pod.spec import MIRROR_ANNOTATION
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal
from kapi.server.authz.podreferences import named_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

PODS: Final = GroupResource("", "pods")
DEFAULT: Final = "default"
ENFORCE_MOUNTABLE_SECRETS: Final = "kubernetes.io/enforce-mountable-secrets"
VOLUME_PREFIX: Final = "kube-api-access-"
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS: Final = 3607
"""The life of a token in a Pod. Authentication tells it by this number from tokens that were asked for."""
DEFAULT_SECONDS: Final = 1.5
"""The seconds to wait for the account `default`, which a controller creates."""

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class ServiceAccount:
    """Sets the ServiceAccount of Pods and what follows from it, and refuses Pods without one."""

    reads_only = True

    def __init__(self, catalog: Catalog) -> None:
        self._store = catalog.store("serviceaccounts")
        self._initializers = catalog.initializers

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new Pods, also those that initializers finish, and for new ephemeral containers."""
        if resource.group_resource != PODS:
            return False
        if (operation, subresource) == (UPDATE, ""):
            return self._initializers.is_active
        return (operation, subresource) in {(CREATE, ""), (UPDATE, "ephemeralcontainers")}

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Complete a new Pod, and refuse it already here where it will be refused."""
        if obj is None or not is_unseen(write, old):
            return
        if _is_mirror(obj):
            await self.validate(write, obj, old)
            return
        spec = obj["spec"]
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT
        account = await self._account(write, obj)
        if _mounts_token(account, spec):
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]
        _check_secrets(write, obj, old, account)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse a Pod whose account does not exist, or whose secrets its account may not use."""
        if obj is None or not (write.subresource or is_unseen(write, old)):
            return
        if write.operation == CREATE and _is_mirror(obj):
            why = _mirror_problem(obj["spec"])
            if why:
                raise refusal(write, obj, why)
            return
        if not obj["spec"].get("serviceAccountName"):
            name = obj["metadata"].get("name", "")
            raise refusal(write, obj, f"no service account specified for pod {write.namespace}/{name}")
        _check_secrets(write, obj, old, await self._account(write, obj))

    async def _account(self, write: Write, pod: Object) -> Object:
        namespace, name = write.namespace, pod["spec"]["serviceAccountName"]
        item = self._store.find(namespace, name)
        if item is None and name == DEFAULT:
            await self._wait_for_default(namespace)
            item = self._store.find(namespace, name)
        if item is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise refusal(write, pod, why)
        return self._store.decode(item)

    async def _wait_for_default(self, namespace: str) -> None:
        """Wait a while for the account to be created: its controller may run in another process."""
        created = asyncio.Event()

        def take(events: Sequence[Event]) -> None:
            if any(event.item.namespace == namespace and event.item.name == DEFAULT for event in events):
                created.set()

        self._store.cache.listen(take)
        try:
            async with asyncio.timeout(DEFAULT_SECONDS):
                await created.wait()
        except TimeoutError:
            pass
        finally:
            self._store.cache.unlisten(take)


def _check_secrets(write: Write, pod: Object, old: Object | None, account: Object) -> None:
    """Raise when the account restricts secrets to those that it lists, and the Pod uses another one."""
    if (account["metadata"].get("annotations") or {}).get(ENFORCE_MOUNTABLE_SECRETS) not in _TRUE:
        return
    is_new = is_unseen(write, old)
    fields = ("initContainers", "containers") if is_new else ("ephemeralContainers",)
    why = next(_unreferenced(account, pod["spec"], fields), "")
    if why:
        # Kubernetes answers with a plain error for ephemeral containers.
        raise refusal(write, pod, why) if is_new else PlainError(why)


def _is_mirror(pod: Object) -> bool:
    return MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {})


# -- the token --------------------------------------------------------------------------------------------------------


def _mounts_token(account: Object, spec: dict[str, Any]) -> bool:
    for wish in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if wish is not None:
            return bool(wish)
    return True


def _mount_token(spec: dict[str, Any]) -> None:
    """Mount the volume in all containers that have nothing at its path."""
    volumes = spec.get("volumes") or []
    present = next((one["name"] for one in volumes if one["name"].startswith(VOLUME_PREFIX)), None)
    name = present or generate_name(VOLUME_PREFIX)
    is_needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
            is_needed = True
    if is_needed and present is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]


def _token_source() -> dict[str, Any]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }


# -- secrets ----------------------------------------------------------------------------------------------------------


def _mirror_problem(spec: dict[str, Any]) -> str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if any(resource == "secrets" for resource, _ in named_objects("", spec, {})):
        return "a mirror pod may not reference secrets"
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any(source.get("serviceAccountToken") is not None for source in sources):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _env_secrets(container: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The secrets in the environment of a container: how each is named in an error, and its name."""
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            yield f"envVar {variable['name']}", reference.get("name", "")
    for source in container.get("envFrom") or ():
        if source.get("secretRef") is not None:
            yield "envFrom", source["secretRef"].get("name", "")


_CONTAINER_NAMES: Final = {
    "initContainers": "init container",
    "containers": "container",
    "ephemeralContainers": "ephemeral container",
}


def _unreferenced(account: Object, spec: dict[str, Any], fields: Sequence[str]) -> Iterator[str]:
    """The secrets that a Pod uses and that its account does not list."""
    name = account["metadata"]["name"]
    secrets = {one.get("name", "") for one in account.get("secrets") or ()}
    why = f"is not allowed because service account {name} does not reference that secret"
    is_new = "containers" in fields
    for volume in (spec.get("volumes") or ()) if is_new else ():
        source = volume.get("secret")
        if source is not None and source.get("secretName", "") not in secrets:
            yield f'volume with secret.secretName="{source.get("secretName", "")}" {why}'
    for field in fields:
        for container in spec.get(field) or ():
            for where, secret in _env_secrets(container):
                if secret not in secrets:
                    subject = f"{_CONTAINER_NAMES[field]} {container['name']} with {where}"
                    yield f'{subject} referencing secret.secretName="{secret}" {why}'
    pull_secrets = {one.get("name", "") for one in account.get("imagePullSecrets") or ()}
    for index, reference in enumerate((spec.get("imagePullSecrets") or ()) if is_new else ()):
        if reference.get("name", "") not in pull_secrets:
            yield (
                f'imagePullSecrets[{index}].name="{reference.get("name", "")}" is not allowed because service account '
                f"{name} does not reference that imagePullSecret"
            )
