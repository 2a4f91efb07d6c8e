"""Turn the published definitions of the built-in kinds into `src/kapi/schema/builtin/definitions.bin`.

The resource is made to be read a little at a time: a small index, then per API package one compressed part with the
structure of its definitions and one with their prose. Serving needs structure only; prose is read when a client asks
for OpenAPI. Layout: magic, length of the index (4 bytes, big-endian), index, parts. Index and parts are zlib-compressed
MessagePack; offsets count from the end of the index. `kapi.schema.builtin.definitions` reads it back.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from generate.gotypes import FieldFacts, enum_values, field_facts

if TYPE_CHECKING:
    import pathlib

MAGIC = b"kapi-schema-1\n"

PREFIX = "io.k8s."
STABLE = re.compile(r"\.v\d+$")

REPLACED: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
}
"""Definitions whose union of types the source spells out, and what kube-apiserver publishes for them."""

PROSE = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "Either an integer or a string, such as a port or its name.",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": (
        "A fixed-point number with a unit: 500m, 1.5, 2Gi. Suffixes are n, u, m, k, M, G, T, P, E and, for powers of "
        "1024, Ki, Mi, Gi, Ti, Pi, Ei; an exponent such as 1e3 is read as well. Stored in one canonical form."
    ),
}
"""Descriptions for the definitions that come without one."""

EXTENSIONS = {
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-list-map-keys": "list_map_keys",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-merge-key": "patch_merge_key",
    "x-kubernetes-unions": "unions",
    "x-kubernetes-group-version-kind": "kinds",
}


def generate_schemas(definitions: dict[str, Any], target: pathlib.Path) -> None:
    """Write the resource for `definitions` (by full name) to `target`."""
    facts, enums = field_facts(), enum_values()
    structure: dict[str, dict[str, Any]] = {}
    prose: dict[str, dict[str, dict[str, str]]] = {}
    kinds: dict[str, str] = {}
    for name, source in sorted(definitions.items()):
        package, _, short = name.rpartition(".")
        node = clean(REPLACED.get(name, source))
        add_facts(node, package, facts.get(name.removeprefix(PREFIX), {}), enums)
        structure.setdefault(package, {})[short] = node
        prose.setdefault(package, {})[short] = descriptions(name, source)
        for kind in node.get("kinds", ()):
            kinds[f"{kind['group']}/{kind['version']}/{kind['kind']}"] = name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(assemble(structure, prose, kinds))


def clean(schema: dict[str, Any]) -> dict[str, Any]:
    """One schema in our terms: no null types, references by name, extensions as fields, no prose."""
    node: dict[str, Any] = {}
    types = schema.get("type", "")
    if types:
        node["type"] = types if isinstance(types, str) else next(word for word in types if word != "null")
    if "$ref" in schema:
        node["ref"] = schema["$ref"].rpartition("/")[2]
    for key in ("format", "required"):
        if schema.get(key):
            node[key] = schema[key]
    if "items" in schema:
        node["items"] = clean(schema["items"])
    if "additionalProperties" in schema:
        node["values"] = clean(schema["additionalProperties"])
    if schema.get("properties"):
        node["properties"] = {field: clean(below) for field, below in schema["properties"].items()}
    for extension, field in EXTENSIONS.items():
        if extension in schema:
            node[field] = schema[extension]
    if "x-kubernetes-patch-strategy" in schema:
        node["patch_strategies"] = schema["x-kubernetes-patch-strategy"].split(",")
    return node


def add_facts(node: dict[str, Any], package: str, facts: dict[str, FieldFacts], enums: dict[str, list[str]]) -> None:
    """Add the facts that the definitions leave out. Only stable packages have facts."""
    required = node.get("required", ())
    for field, below in node.get("properties", {}).items():
        known = facts.get(field, FieldFacts())
        if known.go_type:
            below["go_type"] = known.go_type
            add_enum(below, package.removeprefix(PREFIX), known.go_type, enums)
        if known.embedded:
            below["embedded"] = known.embedded
        elif field in ("apiVersion", "kind") and node.get("kinds"):
            below["embedded"] = "TypeMeta"
        if STABLE.search(package) and "ref" not in below and field not in required and not known.keeps_zero:
            below["drops_zero"] = True


def add_enum(node: dict[str, Any], package: str, go_type: str, enums: dict[str, list[str]]) -> None:
    """Give a field, or the items of a list, the values of its named type: of its own package or of the shared ones."""
    prefix, _, name = go_type.removeprefix("[]").partition(".")
    packages = [package] if package.endswith("." + prefix) else []
    for home in (*packages, "api.core.v1", "apimachinery.pkg.apis.meta.v1"):
        values = enums.get(f"{home}.{name}")
        if values:
            (node["items"] if go_type.startswith("[]") else node)["enum"] = values
            return


def descriptions(name: str, schema: dict[str, Any]) -> dict[str, str]:
    """The prose of a definition: its own under the empty key, then its fields'."""
    texts = {"": schema.get("description", PROSE.get(name, ""))}
    for field, below in schema.get("properties", {}).items():
        texts[field] = below.get("description", "")
    return {field: text for field, text in texts.items() if text}


def assemble(structure: dict[str, Any], prose: dict[str, Any], kinds: dict[str, str]) -> bytes:
    """The bytes of the resource."""
    parts: list[bytes] = []
    packages: dict[str, Any] = {}
    offset = 0
    for package, definitions in structure.items():
        places = []
        for part in (pack(definitions), pack(prose[package])):
            places.append([offset, len(part)])
            parts.append(part)
            offset += len(part)
        packages[package] = {"names": sorted(definitions), "structure": places[0], "prose": places[1]}
    fingerprint = hashlib.sha256(b"".join(parts)).digest()
    index = pack({"packages": packages, "kinds": kinds, "fingerprint": fingerprint})
    return b"".join([MAGIC, len(index).to_bytes(4, "big"), index, *parts])


def pack(value: Any) -> bytes:
    """MessagePack, compressed once and for all."""
    return zlib.compress(msgspec.msgpack.encode(value), 9)
