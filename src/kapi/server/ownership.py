"""Who owns which field: the field manager of every endpoint, and the name a request writes under.

Ownership is recorded in the version of the URL, after defaulting and before admission, as the reference does:
defaults belong to whoever wrote the object, what admission adds belongs to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.apply import excluding, only
from kapi.api.fieldset import ANY, fields
from kapi.api.managedfields import FieldManager
from kapi.registry.strategy import copy_field

if TYPE_CHECKING:
    from kapi.api.apply import Filter
    from kapi.api.meta import Object
    from kapi.api.typedvalue import Shape
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.context import Context
    from kapi.server.options import WriteOptions

MAX_MANAGER_BYTES = 128


class Owners:
    """The field managers of a catalog, made on first use."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._managers: dict[tuple[Resource, str], FieldManager] = {}

    def of(self, resource: Resource, subresource: str) -> FieldManager:
        """The field manager of an endpoint."""
        manager = self._managers.get((resource, subresource))
        if manager is None:
            manager = self._managers[resource, subresource] = FieldManager(
                resource.schema.shape,
                resource.gvk,
                subresource=subresource,
                reset=_ignored(resource, subresource),
                at_version=lambda obj, api_version: self._at_version(resource, obj, api_version),
            )
        return manager

    def _at_version(self, resource: Resource, obj: Object, api_version: str) -> tuple[Shape, Object] | None:
        """An object, which says in which version it is, in another; None when that version is not served."""
        current = obj.get("apiVersion", resource.api_version)
        served = {other.api_version: other for other in self._catalog if _shares(resource, other)}
        target = served.get(api_version)
        if target is None or current not in served:
            return None
        if current == api_version:
            return target.schema.shape, obj
        return target.schema.shape, target.convert_out(served[current].convert_in(obj))


def _shares(one: Resource, other: Resource) -> bool:
    """Whether two kinds are one kind in two versions."""
    return other.store is not None and other.store.prefix == one.stored.prefix


def _ignored(resource: Resource, subresource: str) -> Filter | None:
    """What an endpoint does not write, and nobody can therefore own through it."""
    strategy = resource.stored.strategy
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


def record(context: Context, old: Object | None, new: Object, options: WriteOptions) -> None:
    """Write down in `new` (the stored version, about to be written) who owns its fields; `old` is what it replaces."""
    resource = context.served
    manager = context.services.owners.of(resource, context.info.subresource)
    name, now = manager_name(context, options), context.services.clock.now()
    if resource.from_hub is None:
        manager.update(old, new, manager=name, now=now)
        return
    shown = resource.convert_out(new)
    shown["metadata"] = dict(shown["metadata"])
    manager.update(None if old is None else resource.convert_out(old), shown, manager=name, now=now)
    copy_field(new["metadata"], shown["metadata"], "managedFields")
