"""What differs from kind to kind: defaulting, preparation, validation, and a few flags.

The generic store (`store.py`) runs every write through the same steps and asks the kind's `Strategy` at each. Hooks
are plain functions on decoded objects: they may change `obj` in place where they say so, never `old`, and do no
I/O. The base class is a complete, permissive strategy; `kinds/` has the deep ones.

Order on create:  default → prepare_create → validate_create → (admission) → reserve → commit
Order on update:  default → prepare_update → validate_update → (admission) → reserve → commit
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kapi.api import names

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object


class Lookup(Protocol):
    """Read access to what is stored, for the few rules that span objects. Answers are the latest committed state.

    `resource` is the plural with its group, as `GroupResource` prints it: `services`,
    `priorityclasses.scheduling.k8s.io`.
    """

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, decoded; None when it is not there."""
        ...

    def list(self, resource: str, namespace: str = "", *, ending: str = "") -> Iterable[Object]:
        """All objects of a resource, in one namespace or (empty) in all, whose name has an ending."""
        ...


class WriteContext:
    """What a hook may know about the write it takes part in."""

    __slots__ = ("dry_run", "groups", "lookup", "now", "subresource", "user", "user_extra", "user_uid", "warnings")

    def __init__(
        self,
        *,
        lookup: Lookup,
        now: dt.datetime,
        user: str = "",
        groups: tuple[str, ...] = (),
        user_uid: str = "",
        user_extra: dict[str, list[str]] | None = None,
        dry_run: bool = False,
        subresource: str = "",
    ) -> None:
        self.lookup = lookup
        self.now = now
        self.user = user
        self.groups = groups
        self.user_uid = user_uid
        self.user_extra = user_extra or {}
        self.dry_run = dry_run
        self.subresource = subresource
        self.warnings: list[str] = []
        """Texts for `Warning` headers; hooks append."""


class Strategy:
    """The rules of one kind. Subclasses override what differs; every hook here is safe to leave as it is.

    Invariant for authors: after `default` + `prepare_*`, running them again changes nothing.
    """

    allow_create_on_update: ClassVar[bool] = False
    """PUT of a missing object creates it."""
    allow_unconditional_update: ClassVar[bool] = True
    """PUT without resourceVersion is allowed."""
    tracks_generation: ClassVar[bool] = False
    """metadata.generation starts at 1 and grows when `generation_changed` says so."""
    default_propagation: ClassVar[str] = "Background"
    """Deletion policy when the client names none: Background, Orphan, or Unsupported (no finalizers at all)."""
    returns_deleted_object: ClassVar[bool] = False
    """A final delete answers with the object, not with a Status."""
    has_status: bool = False
    """The kind has a status sub-resource: the main endpoint ignores `.status`, `/status` ignores the rest."""
    keeps_status_on_create: ClassVar[bool] = False
    """A new object may come with its status: nodes do."""
    resets_labels_on_status: ClassVar[bool] = False
    """/status keeps the stored labels."""
    resets_metadata_on_status: ClassVar[bool] = False
    """/status keeps the stored metadata altogether."""
    is_custom: ClassVar[bool] = False
    """The kind is defined by a user, not built in."""
    allows_any_finalizer: ClassVar[bool] = False
    """Finalizers need no domain, as in groups that are served by extension servers of the reference."""

    # -- decoding ---------------------------------------------------------------------------------------------------

    def default(self, obj: Object) -> None:
        """Fill in the defaults of the API version, in place. Runs on every decoded request body and patch result."""

    # -- create -----------------------------------------------------------------------------------------------------

    def prepare_create(self, context: WriteContext, obj: Object) -> None:
        """Set or clear fields that belong to the server, in place (besides status and generation, done for you)."""

    def validate_create(self, context: WriteContext, obj: Object) -> list[FieldError]:
        """Judge a new object. Metadata shared by all kinds has its own check; do not repeat it here."""
        return []

    # -- update -----------------------------------------------------------------------------------------------------

    def prepare_update(self, context: WriteContext, obj: Object, old: Object) -> None:
        """Restore what this endpoint may not change, in place (status is restored for you when `has_status`)."""

    def validate_update(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Judge a changed object. Default: as on create."""
        return self.validate_create(context, obj)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Whether this change is one of desired state. Default: `.spec` differs."""
        return bool(obj.get("spec") != old.get("spec"))

    # -- /status ----------------------------------------------------------------------------------------------------

    def prepare_status(self, context: WriteContext, obj: Object, old: Object) -> None:
        """After everything but metadata and status was restored from `old`: further corrections, in place."""

    def validate_status(self, context: WriteContext, obj: Object, old: Object) -> list[FieldError]:
        """Judge a status update."""
        return []

    # -- delete -----------------------------------------------------------------------------------------------------

    def grace_period(self, obj: Object, requested: int | None) -> int | None:
        """Seconds a deletion may take; None when the kind knows no graceful deletion (all but Pod)."""
        return None

    # -- the rest ---------------------------------------------------------------------------------------------------

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """What is wrong with a name (or generateName prefix), as sentences. Default: DNS subdomain."""
        return names.dns_subdomain(name, prefix=prefix)

    def judges_slowly(self, obj: Object) -> bool:
        """Whether validating this object may take so long that others should have their turn meanwhile.

        Its `validate_*` hooks then run in a thread and must not read through the context's `lookup`.
        """
        return False

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about an accepted object, for `Warning` headers."""
        return []

    def reserve(self, context: WriteContext, obj: Object, old: Object | None) -> Callable[[bool], None] | None:
        """Take what the object needs from a pool (cluster IPs, node ports), writing it into `obj`.

        Called last before the commit, on the event loop, atomically. Returns a function that is told whether the write
        went through, to give the reservation back if not. Raises `Invalid` when the pool says no. Not called for
        dry runs, for which `prepare_*` may put placeholders.
        """
        return None

    def removed(self, namespace: str, name: str) -> None:
        """An object is gone for good: give back what `reserve` took for it."""

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values of the kind's selectable fields beyond metadata.name and metadata.namespace, as strings."""
        return {}

    selectable_fields: tuple[str, ...] = ()
    """The keys `selectable` fills in: what a fieldSelector may name beyond metadata.name/namespace."""


def copy_field(target: dict[str, Any], source: dict[str, Any], key: str) -> None:
    """Make `target[key]` what it is in `source`, absent included."""
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)
