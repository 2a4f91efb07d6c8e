"""The description of one request to change something: who asks, for what, with which options.

A `Write` is built once per request by its handler and given to the write path (`write.py`), to the hooks of
strategies, to field managers and to admission plug-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kapi.api.user import User

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.encoding import HubObject
    from kapi.registry.fieldmanagers import FieldManagers
    from kapi.registry.resource import Resource
    from kapi.registry.store import Store
    from kapi.registry.strategy import Lookup

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"

SERVER = User("system:apiserver", ("system:masters",))
"""The server itself: its own changes are made under this name."""


class Admission(Protocol):
    """The admission plug-ins of a server. `obj` is None for a DELETE, `old` for a CREATE or CONNECT."""

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Change `obj` in place, or raise to refuse. managedFields are replaced as a whole, never changed in place."""
        ...

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse."""
        ...


class _NoAdmission:
    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Change nothing."""

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse nothing."""


NO_ADMISSION = _NoAdmission()
"""For the server's own changes."""


class Reinvocation:
    """The state of mutating admission that may be run twice for one write; plug-ins keep what they need in `values`."""

    __slots__ = ("is_second", "requested", "values")

    def __init__(self) -> None:
        self.is_second = False
        """True in the second run."""
        self.requested = False
        """Set by a plug-in in the first run, to have all mutating plug-ins run once more."""
        self.values: dict[str, Any] = {}


class WriteOptions(NamedTuple):
    """The options of a create, update, patch or apply, decoded."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    """Ignore, Warn or Strict."""
    force: bool = False
    """An apply takes fields that other managers own."""
    kind: str = "CreateOptions"
    given_validation: str = ""
    """The `fieldValidation` that the client sent; empty for none."""


class Write:
    """One request to change something, as strategies, field managers and admission plug-ins see it."""

    __slots__ = (
        "admission",
        "audit_annotations",
        "dry_run",
        "field_manager",
        "field_managers",
        "finish",
        "kind",
        "lookup",
        "name",
        "namespace",
        "now",
        "object_bytes",
        "old",
        "operation",
        "options",
        "reinvocation",
        "resource",
        "store",
        "subresource",
        "user",
        "verb",
        "warnings",
    )

    def __init__(
        self,
        operation: str,
        resource: Resource,
        *,
        lookup: Lookup,
        now: dt.datetime,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        kind: GroupVersionKind | None = None,
        store: Store | None = None,
        user: User = SERVER,
        verb: str = "",
        options: WriteOptions | DeleteOptions | None = None,
        field_manager: str = "",
        field_managers: FieldManagers | None = None,
        admission: Admission = NO_ADMISSION,
        warnings: list[str] | None = None,
        audit_annotations: dict[str, str] | None = None,
        request_bytes: int = 0,
    ) -> None:
        self.operation = operation
        """CREATE, UPDATE, DELETE or CONNECT. An update that finds no object becomes a CREATE where that is allowed."""
        self.resource = resource
        """The resource at the version of the request."""
        self.store = store or resource.stored
        self.namespace = namespace
        self.name = name
        """Empty while a generated name is not known yet."""
        self.subresource = subresource
        self.kind = kind or resource.gvk
        """The kind that the request carries: the resource's own, or that of a sub-resource, such as Scale."""
        self.user = user
        self.verb = verb
        """The verb that was authorized."""
        self.options = options or WriteOptions()
        self.dry_run = self.options.dry_run
        self.field_manager = field_manager
        """The name this request owns fields under."""
        self.field_managers = field_managers
        """None for the server's own changes, which own no fields."""
        self.admission = admission
        self.lookup = lookup
        self.now = now
        self.old: HubObject | None = None
        """The object as it is stored, in the version of the store; None until it is loaded, and on create."""
        self.finish: Callable[[bool], None] | None = None
        """Set by a plug-in that must know the outcome: called once with True when the write is committed, or False."""
        self.object_bytes = request_bytes
        """The size of the wanted object as JSON, as far as it is stored; the size of the request until it is known."""
        self.warnings: list[str] = [] if warnings is None else warnings
        """Texts for `Warning` headers; hooks and plug-ins append."""
        self.reinvocation: Reinvocation | None = None
        """None unless a plug-in of mutating admission has use for it; made anew for each run of admission."""
        self.audit_annotations: dict[str, str] = {} if audit_annotations is None else audit_annotations
        """Annotations of the audit event; hooks and plug-ins add."""

    def of_object(self, namespace: str, name: str) -> Write:
        """The same request for one object of a collection; warnings and audit annotations are shared."""
        write = Write(
            self.operation,
            self.resource,
            lookup=self.lookup,
            now=self.now,
            namespace=namespace,
            name=name,
            subresource=self.subresource,
            kind=self.kind,
            store=self.store,
            user=self.user,
            verb=self.verb,
            options=self.options,
            field_manager=self.field_manager,
            field_managers=self.field_managers,
            admission=self.admission,
            warnings=self.warnings,
            audit_annotations=self.audit_annotations,
            request_bytes=self.object_bytes,
        )
        write.dry_run = self.dry_run
        write.old, write.finish, write.reinvocation = self.old, self.finish, self.reinvocation
        return write
