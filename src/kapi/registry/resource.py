"""A served resource: its names and verbs in discovery, and the store its objects are in.

One `Resource` is one row of `kubectl api-resources` at one version. Two of them may share a store: `events` in the
core group and in `events.k8s.io` are two views of one stored kind, `autoscaling/v1` and `/v2` likewise; then
`to_hub` and `from_hub` convert.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kapi.api.meta import GroupKind, GroupResource, GroupVersion, GroupVersionKind
from kapi.registry.encoding import HubObject, encode, head_of
from kapi.registry.tables import table_for
from kapi.registry.tables.custom import custom_table
from kapi.schema.builtin.typed import kind_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.custom.version import CustomVersion
    from kapi.registry.store import Store
    from kapi.registry.tables import Table
    from kapi.schema.builtin.typed import ObjectSchema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A sub-resource as discovery shows it; group and version only when they differ from the parent's."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Resource:
    """A resource at a version: names, verbs, sub-resources, its schema, and the store its objects live in."""

    group: str
    version: str
    resource: str
    kind: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: dict[str, Subresource] = field(default_factory=dict)
    store: Store | None = None
    """None for resources that are computed or only created, never stored: reviews, bindings, component statuses."""
    to_hub: Callable[[Object], Object] | None = None
    from_hub: Callable[[Object], Object] | None = None
    field_aliases: dict[str, str] = field(default_factory=dict)
    """Field selector keys of this version → the hub's."""
    selectable: tuple[str, ...] = ()
    """Field selector keys beyond metadata.name and metadata.namespace."""
    deprecation: str = ""
    """Text of the `Warning` header every request to this resource gets."""
    list_kind: str = ""
    """The kind of its lists; `<kind>List` when not said."""
    custom: CustomVersion | None = None
    """The version of the definition of a custom kind; None for built-in kinds."""
    read_schema: Callable[[], ObjectSchema] | None = None
    """The function that makes the schema; None for the built-in definitions."""

    gvk: GroupVersionKind = field(init=False)
    group_resource: GroupResource = field(init=False)
    group_kind: GroupKind = field(init=False)
    group_version: GroupVersion = field(init=False)
    api_version: str = field(init=False)
    head: bytes = field(init=False)
    _schema: ObjectSchema | None = field(init=False, default=None)
    _table: Table | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.list_kind = self.list_kind or f"{self.kind}List"
        self.gvk = GroupVersionKind(self.group, self.version, self.kind)
        self.group_resource = GroupResource(self.group, self.resource)
        self.group_kind = GroupKind(self.group, self.kind)
        self.group_version = GroupVersion(self.group, self.version)
        self.api_version = self.gvk.api_version
        self.head = head_of(self.api_version, self.kind)

    @property
    def schema(self) -> ObjectSchema:
        """The compiled schema of this version; compiled on first use."""
        if self._schema is None:
            self._schema = (
                kind_schema(self.group, self.version, self.kind) if self.read_schema is None else self.read_schema()
            )
        return self._schema

    @property
    def table(self) -> Table:
        """The table its objects are shown in."""
        if self._table is None:
            self._table = (
                table_for(self.group, self.resource) if self.custom is None else custom_table(self.custom.columns)
            )
        return self._table

    @property
    def stored(self) -> Store:
        """The store; only for resources that have one."""
        assert self.store is not None
        return self.store

    @property
    def needs_webhook(self) -> bool:
        """True if a webhook may have to convert an object before it can be shown in this version."""
        return self.store is not None and self.store.converter is not None

    @property
    def shown(self) -> Callable[[Item], bytes] | None:
        """The function that makes the body of an item for this version; None when it is served as it is stored."""
        if self.from_hub is not None:
            return self._converted
        return None if self.custom is None else self.stored.body

    def _converted(self, item: Item) -> bytes:
        return encode(self.convert_out(self.stored.decode(item)))[len(self.head) :]

    def convert_in(self, obj: Object) -> HubObject:
        """The object, which is in this version, in the version of the store."""
        return HubObject(obj if self.to_hub is None else self.to_hub(obj))

    def convert_out(self, obj: HubObject) -> Object:
        """The object, which is in the version of the store, in this version."""
        return obj if self.from_hub is None else self.from_hub(obj)
