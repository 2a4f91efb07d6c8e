"""The definitions of the built-in kinds, read from the generated resource `definitions.bin` a little at a time.

Nothing is read at import. The index is read on first use, the structure of an API package when one of its definitions
is wanted, and prose only when OpenAPI asks for it. Parts are kept in a small cache; what others build from them is
theirs to keep. Touches one file: the package resource.
"""

from __future__ import annotations

import functools
import importlib.resources
import zlib
from typing import TypeVar

import msgspec

MAGIC = b"kapi-schema-1\n"

INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
FIELDS_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
JSON = EXTENSIONS + "JSON"
JSON_SCHEMA = EXTENSIONS + "JSONSchemaProps"
JSON_SCHEMA_OR_ARRAY = EXTENSIONS + "JSONSchemaPropsOrArray"
JSON_SCHEMA_OR_BOOL = EXTENSIONS + "JSONSchemaPropsOrBool"
JSON_SCHEMA_OR_STRINGS = EXTENSIONS + "JSONSchemaPropsOrStringArray"

NOT_STRUCTS = frozenset(
    {
        INT_OR_STRING,
        QUANTITY,
        TIME,
        MICRO_TIME,
        RAW_EXTENSION,
        FIELDS_V1,
        JSON,
        JSON_SCHEMA_OR_ARRAY,
        JSON_SCHEMA_OR_BOOL,
        JSON_SCHEMA_OR_STRINGS,
    }
)
"""Definitions that read and write themselves: their JSON is a scalar, a choice, or anything at all."""


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One schema: a definition, or a field, list item or map value inside one. Immutable."""

    type: str = ""
    """object, array, string, integer, number, boolean; empty for a reference and for anything at all."""
    format: str = ""
    ref: str = ""
    """The full name of the definition that says the rest."""
    items: Node | None = None
    values: Node | None = None
    """The schema of a map's values."""
    properties: dict[str, Node] = {}
    required: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategies: tuple[str, ...] = ()
    patch_merge_key: str = ""
    kinds: tuple[dict[str, str], ...] = ()
    """Group, version and kind of the objects this definition describes."""
    unions: tuple[dict[str, object], ...] = ()
    go_type: str = ""
    """The name of the type in kube-apiserver's error messages, where the schema does not tell."""
    embedded: str = ""
    """The struct a field is embedded by, which is part of its path in error messages."""
    drops_zero: bool = False
    """An empty value of this field means the same as none and is not kept."""


class _Package(msgspec.Struct, frozen=True):
    """The positions of the parts of an API package."""

    names: tuple[str, ...]
    structure: tuple[int, int]
    prose: tuple[int, int]


class _Index(msgspec.Struct, frozen=True):
    """The index of the resource; `start` is where the parts begin."""

    packages: dict[str, _Package]
    kinds: dict[str, str]
    fingerprint: bytes
    start: int = 0


def definition(name: str) -> Node:
    """The definition of that full name, such as `io.k8s.api.core.v1.Pod`. Raises KeyError when there is none."""
    package, _, short = name.rpartition(".")
    return _decode_node(_structure(package)[short])


def definition_name(group: str, version: str, kind: str) -> str | None:
    """The definition that describes objects of a kind; None when the kind is not built in."""
    return _index().kinds.get(f"{group}/{version}/{kind}")


def names() -> list[str]:
    """Every definition there is, sorted within its package."""
    return [f"{package}.{short}" for package, parts in _index().packages.items() for short in parts.names]


def descriptions(name: str) -> dict[str, str]:
    """The descriptions of a definition: its own under the empty key, those of its fields under their names."""
    package, _, short = name.rpartition(".")
    return _prose(package).get(short, {})


def fingerprint() -> bytes:
    """A digest of all definitions and their descriptions, which changes when they do."""
    return _index().fingerprint


_decode_node = msgspec.msgpack.Decoder(Node).decode
_Part = TypeVar("_Part")


@functools.cache
def _index() -> _Index:
    with importlib.resources.files(__package__).joinpath("definitions.bin").open("rb") as resource:
        if resource.read(len(MAGIC)) != MAGIC:
            raise RuntimeError("definitions.bin was made for another version of this package; build the package again")
        length = int.from_bytes(resource.read(4), "big")
        index = msgspec.msgpack.decode(zlib.decompress(resource.read(length)), type=_Index)
    return msgspec.structs.replace(index, start=len(MAGIC) + 4 + length)


def _read(place: tuple[int, int], shape: type[_Part]) -> _Part:
    offset, length = place
    with importlib.resources.files(__package__).joinpath("definitions.bin").open("rb") as resource:
        resource.seek(_index().start + offset)
        return msgspec.msgpack.decode(zlib.decompress(resource.read(length)), type=shape)


# A kind rarely reaches beyond its own package, core/v1 and meta/v1, so a handful of parts is enough.
@functools.lru_cache(maxsize=4)
def _structure(package: str) -> dict[str, msgspec.Raw]:
    return _read(_index().packages[package].structure, dict[str, msgspec.Raw])


@functools.lru_cache(maxsize=4)
def _prose(package: str) -> dict[str, dict[str, str]]:
    return _read(_index().packages[package].prose, dict[str, dict[str, str]])
