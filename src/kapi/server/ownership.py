"""Who owns which field: the field manager of every endpoint, and the name a request writes under.

Ownership is recorded in the version of the URL, after defaulting and before admission, as the reference does:
defaults belong to whoever wrote the object, what admission adds belongs to nobody.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary, ref

from kapi.api.ownership.apply import excluding, only
from kapi.api.ownership.fieldset import ANY, fields
from kapi.api.ownership.managedfields import FieldManager
from kapi.registry.custom.conversion import relabel
from kapi.registry.custom.store import CustomStore
from kapi.registry.encoding import encode
from kapi.registry.strategy import copy_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.meta import Object
    from kapi.api.ownership.apply import Filter
    from kapi.api.ownership.shape import Shape
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.registry.store import Store
    from kapi.server.context import Context
    from kapi.server.handlers.options import WriteOptions

MAX_MANAGER_BYTES = 128

T = TypeVar("T")


class Owners:
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
    """An object is needed in another version, and only a webhook can tell what it is there."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version
        self.key = (encode(obj), api_version)


_converted: ContextVar[dict[tuple[bytes, str], Object]] = ContextVar("converted")


async def beside(resource: Resource, work: Callable[[], T]) -> T:
    """Do the work of a field manager, which must change nothing until it is done.

    Where it needs an object that a webhook converts, the webhook is asked and the work begun anew with the answer at
    hand. A thread could wait inside the work instead; but threads are few, and one webhook that hangs would have all.
    """
    store = resource.stored
    if not isinstance(store, CustomStore) or not store.is_remote:
        return work()
    known: dict[tuple[bytes, str], Object] = {}
    _converted.set(known)
    while True:
        try:
            return work()
        except _Unconverted as missing:
            known[missing.key] = await store.convert(missing.obj, missing.api_version)


def _convert_now(store: Store, obj: Object, api_version: str) -> Object:
    """A custom object in another version; only `beside` can have it done if somebody must be asked."""
    assert isinstance(store, CustomStore)
    if store.converter is None:
        return relabel(obj, api_version)
    if "apiVersion" not in obj:
        return obj  # what is not there yet is not there in any version
    missing = _Unconverted(obj, api_version)
    found = _converted.get().get(missing.key)
    if found is None:
        raise missing
    return found


def _ignored(resource: Resource, subresource: str) -> Filter | None:
    """What an endpoint does not write, and nobody can therefore own through it."""
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


def manager_name(context: Context, options: WriteOptions) -> str:
    """Under which name a request writes: what it says, else the program's name from its User-Agent."""
    if options.field_manager:
        return options.field_manager
    program = context.request.headers.get("user-agent", "").partition("/")[0]
    printable = "".join(character for character in program if character.isprintable())
    return printable.encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


async def record(context: Context, old: Object | None, new: Object, options: WriteOptions) -> None:
    """Write down in `new` (the stored version, about to be written) who owns its fields; `old` is what it replaces."""
    resource = context.served
    manager = context.services.owners.of(resource, context.info.subresource)
    name, now = manager_name(context, options), context.services.clock.now()
    if resource.from_hub is None:
        if not resource.stored.is_remote:
            manager.update(old, new, manager=name, now=now)
            return

        def updated() -> Object:
            draft = {**new, "metadata": dict(new["metadata"])}
            manager.update(old, draft, manager=name, now=now)
            return draft

        copy_field(new["metadata"], (await beside(resource, updated))["metadata"], "managedFields")
        return
    shown = resource.convert_out(new)
    shown["metadata"] = dict(shown["metadata"])
    manager.update(None if old is None else resource.convert_out(old), shown, manager=name, now=now)
    copy_field(new["metadata"], shown["metadata"], "managedFields")
