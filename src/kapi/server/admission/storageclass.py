"""DefaultStorageClass and PersistentVolumeClaimResize: what claims get from their StorageClass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupResource
from kapi.api.values import Quantity, parse_quantity
from kapi.registry.quota.evaluators import STORAGE_CLASS_ANNOTATION
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
CLASSES: Final = "storageclasses.storage.k8s.io"
IS_DEFAULT: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class DefaultStorageClass:
    """Gives new claims that name no class the default one: of several, the newest."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for new claims."""
        return operation == CREATE and not subresource and resource.group_resource == CLAIMS

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Set the class. An empty one is a wish for a volume without a class."""
        if obj is None or _annotated_class(obj) is not None or obj["spec"].get("storageClassName") is not None:
            return
        # By name, and then by time: equally old ones stay in the order of their names.
        defaults = [one for one in self._catalog.list(CLASSES) if _is_default(one)]
        newest = sorted(defaults, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True)
        if newest:
            obj["spec"]["storageClassName"] = newest[0]["metadata"]["name"]


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(name) == "true" for name in IS_DEFAULT)


def _annotated_class(claim: Object) -> str | None:
    value: str | None = (claim["metadata"].get("annotations") or {}).get(STORAGE_CLASS_ANNOTATION)
    return value


class PersistentVolumeClaimResize:
    """Refuses to expand claims that are not bound, or whose class does not allow it."""

    reads_only = True

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for updates of claims."""
        return operation == UPDATE and not subresource and resource.group_resource == CLAIMS

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse the expansion."""
        if obj is None or old is None or _size(obj) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise refusal(write, obj, "Only bound persistent volume claims can be expanded")
        if not self._allows_expansion(_class_of(obj), _class_of(old)):
            why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            raise refusal(write, obj, why + "support resize")

    def _allows_expansion(self, name: str, before: str) -> bool:
        if not name or name != before:
            return False
        storage_class = self._catalog.get(CLASSES, "", name)
        return storage_class is not None and bool(storage_class.get("allowVolumeExpansion"))


def _size(claim: Object) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", "0"))


def _class_of(claim: Object) -> str:
    annotated = _annotated_class(claim)
    return annotated if annotated is not None else claim["spec"].get("storageClassName") or ""
