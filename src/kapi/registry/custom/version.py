"""One version of a definition, read from its bytes; the schema is decoded when it is needed.

The schema is by far the largest part of a definition, and most versions of most definitions are never written to. So a
version keeps the watch cache's own bytes of the definition and finds its schema in them on first use.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from kapi.schema.customschema import CustomSchema

if TYPE_CHECKING:
    from kapi.cache.watchcache import Item


class Names(msgspec.Struct, rename="camel"):
    """The names of a kind."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: list[str] = []
    categories: list[str] = []


class Scale(msgspec.Struct, rename="camel"):
    """The paths of the numbers that the scale sub-resource shows."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str | None = None


class Subresources(msgspec.Struct):
    """The sub-resources a version has."""

    status: dict[str, Any] | None = None
    scale: Scale | None = None


class SelectableField(msgspec.Struct, rename="camel"):
    """A field that selectors may name."""

    json_path: str


class Version(msgspec.Struct, rename="camel"):
    """One entry of `spec.versions`, but for its schema."""

    name: str
    served: bool = False
    storage: bool = False
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: msgspec.Raw = msgspec.Raw(b"null")
    subresources: Subresources | None = None
    additional_printer_columns: list[dict[str, Any]] = []
    selectable_fields: list[SelectableField] = []


class Condition(msgspec.Struct):
    """A condition of a definition, as far as serving asks."""

    type: str = ""
    status: str = ""


class Metadata(msgspec.Struct, rename="camel"):
    """The identity of a definition."""

    name: str
    uid: str = ""
    deletion_timestamp: str | None = None


class Spec(msgspec.Struct, rename="camel"):
    """The desired state of a definition."""

    group: str
    scope: str
    versions: list[Version]
    names: Names
    preserve_unknown_fields: bool = False
    conversion: dict[str, Any] = {}


class Status(msgspec.Struct, rename="camel"):
    """The state of a definition. A client can patch any of it away."""

    accepted_names: Names = msgspec.field(default_factory=Names)
    conditions: list[Condition] | None = None
    stored_versions: list[str] = []


class Outline(msgspec.Struct):
    """A definition without its schemas."""

    metadata: Metadata
    spec: Spec
    status: Status = msgspec.field(default_factory=Status)

    def is_true(self, condition: str) -> bool:
        """Return True if a condition is there and true."""
        return any(one.type == condition and one.status == "True" for one in self.status.conditions or ())


_decode_outline = msgspec.json.Decoder(Outline).decode


def outline_of(item: Item) -> Outline:
    """The outline of a stored definition."""
    return _decode_outline(b"{" + item.body)


class CustomVersion:
    """A version as it is served: its schema, its columns, and a fingerprint that tells whether anything changed."""

    def __init__(self, outline: Outline, version: Version, item: Item) -> None:
        self._item = item
        self.name = version.name
        self.preserve_unknown = outline.spec.preserve_unknown_fields
        self.columns = version.additional_printer_columns
        self.fingerprint = _fingerprint(outline, version)
        self.description = _digest(_own_parts(outline, version))
        """Changes when what documents say of this version does."""

    @functools.cached_property
    def retired(self) -> asyncio.Future[None]:
        """Done when the version is no longer served in this form: its watches end."""
        return asyncio.get_running_loop().create_future()

    def refresh(self, item: Item) -> None:
        """Take note of newer bytes of the definition, in which nothing changed for this version."""
        self._item = item

    @property
    def props(self) -> dict[str, Any] | None:
        """The schema as it was written, decoded anew each time; None when there is none."""
        versions = outline_of(self._item).spec.versions
        raw = next(one.schema for one in versions if one.name == self.name)
        schema: dict[str, Any] = msgspec.json.decode(raw) or {}
        props: dict[str, Any] | None = schema.get("openAPIV3Schema")
        return props

    @functools.cached_property
    def schema(self) -> CustomSchema:
        """The compiled schema."""
        return CustomSchema(lambda: self.props, preserve_unknown=self.preserve_unknown)


def _fingerprint(outline: Outline, version: Version) -> str:
    """Changes when what this version serves does.

    Conditions do not count, nor do other versions, unless objects may be stored in them: those are pruned and defaulted
    by the version they are stored in.
    """
    stored = [
        (one.name, one.storage, one.schema)
        for one in outline.spec.versions
        if one.storage or one.name in outline.status.stored_versions
    ]
    return _digest((*_own_parts(outline, version), stored, outline.spec.conversion))


def _own_parts(outline: Outline, version: Version) -> tuple[object, ...]:
    spec = outline.spec
    return version, outline.status.accepted_names, spec.scope, spec.preserve_unknown_fields


def _digest(parts: tuple[object, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
