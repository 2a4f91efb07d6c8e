"""Field managers: the one of every endpoint, which records in managedFields who owns which field.

Ownership is recorded in the version of the request, after defaulting and before admission, as kube-apiserver does:
defaults belong to the manager that wrote the object, and what admission adds belongs to no manager.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary, ref

from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.ownership.apply import excluding, only
from kapi.api.ownership.fieldset import ANY, fields
from kapi.api.ownership.managedfields import FieldManager
from kapi.base.offloop import off_loop
from kapi.registry.custom.conversion import relabel
from kapi.registry.encoding import encode
from kapi.registry.strategy import copy_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.meta import Object
    from kapi.api.ownership.apply import Filter
    from kapi.api.ownership.shape import Shape
    from kapi.registry.catalog import Catalog
    from kapi.registry.encoding import HubObject
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.store import Store

T = TypeVar("T")


class FieldManagers:
    """The field managers of a catalog, made on first use."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._managers: WeakKeyDictionary[Resource, dict[str, FieldManager]] = WeakKeyDictionary()

    def of(self, resource: Resource, subresource: str) -> FieldManager:
        """The field manager of an endpoint."""
        managers = self._managers.setdefault(resource, {})
        manager = managers.get(subresource)
        if manager is None:
            # The manager must not keep alive the resource it is found by.
            found = ref(resource)
            manager = managers[subresource] = FieldManager(
                resource.schema.shape,
                resource.gvk,
                subresource=subresource,
                reset=_ignored(resource, subresource),
                # The status of a custom kind is its status at every version.
                resets_everywhere=resource.custom is not None and subresource == "status",
                at_version=lambda obj, api_version: self._at_version(found(), obj, api_version),
                has_fixed_schema=resource.custom is None,
            )
        return manager

    async def record(self, write: Write, new: HubObject) -> None:
        """Set the managedFields of `new`, which is about to replace `write.old`, to what its field manager now owns."""
        resource, old = write.resource, write.old
        manager = self.of(resource, write.subresource)
        if resource.from_hub is None:
            if resource.stored.converter is None:
                record = partial(manager.update, old, new, manager=write.field_manager, now=write.now)
                await off_loop(record) if write.object_bytes >= OFF_LOOP_BYTES else record()
                return

            def updated() -> Object:
                draft = {**new, "metadata": dict(new["metadata"])}
                manager.update(old, draft, manager=write.field_manager, now=write.now)
                return draft

            copy_field(new["metadata"], (await with_conversions(resource, updated))["metadata"], "managedFields")
            return
        shown = resource.convert_out(new)
        shown["metadata"] = dict(shown["metadata"])
        before = None if old is None else resource.convert_out(old)
        manager.update(before, shown, manager=write.field_manager, now=write.now)
        copy_field(new["metadata"], shown["metadata"], "managedFields")

    def _at_version(self, resource: Resource | None, obj: Object, api_version: str) -> tuple[Shape, Object] | None:
        """An object, which says in which version it is, in another; None when that version is not served."""
        if resource is None:
            return None
        current = obj.get("apiVersion", resource.api_version)
        served = {other.api_version: other for other in self._versions(resource)}
        target = served.get(api_version)
        if target is None or current not in served:
            return None
        if current == api_version:
            return target.schema.shape, obj
        if resource.custom is not None:
            return target.schema.shape, _convert_now(resource.stored, obj, api_version)
        return target.schema.shape, target.convert_out(served[current].convert_in(obj))

    def _versions(self, resource: Resource) -> Iterable[Resource]:
        """The versions of a kind that are served now."""
        if resource.custom is None:
            return (
                one for one in self._catalog if one.store is not None and one.store.prefix == resource.stored.prefix
            )
        versions = self._catalog.groups.get(resource.group, {}).values()
        return (found for resources in versions if (found := resources.get(resource.resource)) is not None)


class _Unconverted(Exception):
    """Raised when an object is needed in another version that only a webhook can convert it to."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version
        self.key = (encode(obj), api_version)


_converted: ContextVar[dict[tuple[bytes, str], Object]] = ContextVar("converted")


async def with_conversions(resource: Resource, work: Callable[[], T], *, is_large: bool = False) -> T:
    """Do the work of a field manager, which must change nothing until it is done; off the event loop if it takes long.

    Where it needs an object that a webhook converts, the webhook is asked and the work begun again with the answer at
    hand. A thread could wait inside the work instead; but threads are few, and one webhook that hangs would block all.
    """
    store = resource.stored
    if store.converter is None:
        return await off_loop(work) if is_large else work()
    known: dict[tuple[bytes, str], Object] = {}
    _converted.set(known)
    while True:
        try:
            return await off_loop(work) if is_large else work()
        except _Unconverted as missing:
            key, obj, api_version = missing.key, missing.obj, missing.api_version
        known[key] = await store.convert(obj, api_version)


def _convert_now(store: Store, obj: Object, api_version: str) -> Object:
    """A custom object in another version; within `with_conversions` where a webhook converts."""
    if store.converter is None:
        return relabel(obj, api_version)
    if "apiVersion" not in obj:
        return obj  # an object that does not exist yet is empty in every version
    missing = _Unconverted(obj, api_version)
    found = _converted.get().get(missing.key)
    if found is None:
        raise missing
    return found


def _ignored(resource: Resource, subresource: str) -> Filter | None:
    """The filter of the fields that an endpoint does not write, and no manager can own through it."""
    strategy = resource.stored.strategy
    if subresource == "status" and strategy.is_custom:
        return only(fields("status"))
    if subresource == "status":
        paths = [fields("spec")]
        if strategy.resets_metadata_on_status:
            paths.append(fields("metadata"))
        elif strategy.resets_labels_on_status:
            paths.append(fields("metadata", "labels"))
        return excluding(*paths)
    if subresource == "ephemeralcontainers":
        return only(fields("spec", "ephemeralContainers"))
    if subresource == "resize":
        containers = ("containers", "initContainers")
        return only(*((*fields("spec", one), ANY, *fields("resources")) for one in containers))
    if subresource == "approval":
        return excluding(fields("spec"))
    return excluding(fields("status")) if strategy.has_status else None
