"""Strategies: what differs from kind to kind in a write, as hooks and flags.

The write path (`write.py`) takes every request through the same steps and calls the kind's `Strategy` at each. Hooks
are plain functions on decoded objects in the stored version: they may change `obj` in place where they say so, never
`old`, and do no I/O. The base class is a complete, permissive strategy; `kinds/` has the specific ones.

On create:  default → prepare_create → validate_create → commit_with
On update:  default → prepare_update → validate_update → commit_with
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from kapi.api import names
from kapi.api.limits import OFF_LOOP_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.scale import Scales
    from kapi.storage.interface import Operation


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


class Companions(NamedTuple):
    """Operations to commit together with an object, in one revision, or not at all."""

    operations: Sequence[Operation] = ()
    """Writes and checks of further keys, each with the revision it expects; after a mismatch the hook decides again."""
    obj: Object | None = None
    """The object with the values that were chosen for it; None: it is committed as it is."""
    done: Callable[[bool], None] | None = None
    """Called once with the outcome of the commit, even if the request no longer waits for it."""


class Strategy:
    """The rules of one kind. Subclasses override what differs; every hook here may be left as it is.

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
    scale: Scales | None = None
    """The reader and writer of the kind's Scales where its replicas are not in the usual places."""
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
    """Finalizers need no domain, as in groups that extension API servers serve in Kubernetes."""
    validates_off_loop_from: ClassVar[int] = OFF_LOOP_BYTES
    """Objects of at least so many bytes are validated in a thread, because it takes long enough to delay other
    requests. The `validate_*` hooks must not read through the write's `lookup` then."""
    validates_by_schema: ClassVar[bool] = False
    """Objects are validated by the kind's schema as well: for kinds that have no `validate_create` of their own."""

    # -- decoding ---------------------------------------------------------------------------------------------------

    def default(self, obj: Object) -> None:
        """Fill in the defaults of the API version, in place. Runs on every decoded request body and patch result."""

    # -- create -----------------------------------------------------------------------------------------------------

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Set or clear fields that belong to the server, in place (besides status and generation, done for you)."""

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a new object. The metadata that all kinds share is validated apart; do not repeat it here."""
        return []

    def size_errors(self, obj: Object) -> list[FieldError]:
        """Return the errors of an object that is larger than its kind allows.

        `validate_create` reports them too. The write path asks for them alone, before it does anything else with an
        object that is too large for any kind, so that the answer names the limit that the client knows.
        """
        return []

    # -- update -----------------------------------------------------------------------------------------------------

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """Restore what this endpoint may not change, in place (status is restored for you when `has_status`)."""

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a changed object. Default: as on create."""
        return self.validate_create(write, obj)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Return True if this change is one of the desired state. Default: `.spec` differs."""
        return bool(obj.get("spec") != old.get("spec"))

    # -- /status ----------------------------------------------------------------------------------------------------

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """After everything but metadata and status was restored from `old`: further corrections, in place."""

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a status update."""
        return []

    # -- delete -----------------------------------------------------------------------------------------------------

    def grace_period(self, obj: Object, requested: int | None) -> int | None:
        """Seconds a deletion may take; None when the kind knows no graceful deletion (all but Pod)."""
        return None

    # -- the rest ---------------------------------------------------------------------------------------------------

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """The problems of a name (or generateName prefix), as sentences. Default: DNS subdomain."""
        return names.dns_subdomain(name, prefix=prefix)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Advice about an accepted object, for `Warning` headers."""
        return []

    def commit_with(self, write: Write, obj: Object | None, old: Object | None) -> Companions | None:
        """Return what must be committed together with this write; `obj` is None when the object is deleted.

        Called last before the commit, on the event loop, and again after every commit that failed because a companion
        had changed. `obj` is not changed: what was chosen for it (a cluster IP, a node port) is in `Companions.obj`.
        Raises `Invalid` where there is nothing to choose. Not called for dry runs, for which `prepare_*` may put
        placeholders.
        """
        return None

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values of the kind's selectable fields beyond metadata.name and metadata.namespace, as strings."""
        return {}

    selectable_fields: tuple[str, ...] = ()
    """The keys `selectable` fills in: what a fieldSelector may name beyond metadata.name/namespace."""
    selectable_aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of selectable fields."""
    unknown_field_message: ClassVar[str] = ""
    """The error about a field that is not selectable, with `{key}` in it, for a kind that words it differently."""


class PlainStrategy(Strategy):
    """The strategy of kinds that have no rules but their schema."""

    validates_by_schema = True


def copy_field(target: dict[str, Any], source: dict[str, Any], key: str) -> None:
    """Make `target[key]` what it is in `source`, absent included."""
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)
