"""What the watch cache holds: items, one for each object at its latest revision, and events, one for each change.

What is kept per object is its JSON after `{"kind":…,"apiVersion":…,` (the `body`), its labels and its selectable
fields.
"""

from __future__ import annotations

from typing import NamedTuple

_VERSION_FIELD = b'"resourceVersion":"%d"'
_NO_FIELDS: dict[str, str] = {}


class Selection(NamedTuple):
    """What selectors look at; this server's writes carry it as the note of the change, which spares decoding."""

    labels: dict[str, str] | None
    fields: dict[str, str] | None
    form: object = None
    """What the writer knows the value to be fit for, see `Item.form`."""
    owners: tuple[str, ...] | None = None
    """The uids of the owners an object names; None when it names none."""
    is_uninitialized: bool = False
    """True if initializers have not finished the object, see `registry.initializers`."""


class Item:
    """One object at one revision. Immutable but for what is remembered of it: a write makes a new one.

    A custom object may be stored in any version its kind had, by rules that have changed since. `version` is the
    apiVersion it is stored in (empty for kinds that have one stored version only), `form` a token of the rules its body
    is known to obey, and `forms` its bodies by other rules, made when they were first asked for.
    """

    is_uninitialized = False
    """True for objects that are hidden from clients that do not ask for them; see `UninitializedItem`."""

    __slots__ = (
        "body",
        "fields",
        "form",
        "forms",
        "key",
        "labels",
        "name",
        "namespace",
        "owners",
        "revision",
        "version",
    )

    def __init__(
        self,
        key: str,
        namespace: str,
        name: str,
        revision: int,
        body: bytes,
        selection: Selection,
        version: str = "",
    ) -> None:
        self.key = key
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.body = body
        self.labels = selection.labels
        self.fields = selection.fields
        self.version = version
        self.form = selection.form
        self.owners = selection.owners
        self.forms: dict[object, bytes] | None = None

    def at(self, revision: int) -> Item:
        """The same state stamped with another revision: how a deletion is shown.

        The metadata block comes first in a body and resourceVersion is the first field of that name in it, so the
        first match is the right one.
        """
        before, after = _VERSION_FIELD % self.revision, _VERSION_FIELD % revision
        selection = Selection(self.labels, self.fields, self.form, self.owners)
        body = self.body.replace(before, after, 1)
        item = type(self)(self.key, self.namespace, self.name, revision, body, selection, self.version)
        if self.forms is not None:
            item.forms = {form: other.replace(before, after, 1) for form, other in self.forms.items()}
        return item

    def field_values(self) -> dict[str, str]:
        """Everything a field selector may ask about."""
        return {"metadata.name": self.name, "metadata.namespace": self.namespace, **(self.fields or _NO_FIELDS)}


class UninitializedItem(Item):
    """An object that initializers have not finished. A class, so that other items do not carry a field for it."""

    __slots__ = ()
    is_uninitialized = True


def item_class(selection: Selection) -> type[Item]:
    """The class of the item of an object."""
    return UninitializedItem if selection.is_uninitialized else Item


class Event:
    """One change of one object: `previous` is None for an addition, `deleted` says the item is its last state."""

    __slots__ = ("chunks", "deleted", "item", "previous", "time")

    def __init__(self, item: Item, previous: Item | None, *, deleted: bool, time: float) -> None:
        self.item = item
        self.previous = previous
        self.deleted = deleted
        self.time = time
        self.chunks: dict[object, bytes] = {}
        """Encoded forms made while the event is handed out, by (encoder, type); emptied afterwards."""

    @property
    def size(self) -> int:
        """Bytes that are kept for this event alone: the state before it, and the last state if there is none after."""
        before = 0 if self.previous is None else len(self.previous.body)
        return before + len(self.item.body) if self.deleted else before
