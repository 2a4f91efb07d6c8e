"""Distils the protobuf table of the codec from the published Go modules of Kubernetes.

    python tools/distil_protobuf.py [--version v0.36.4]

Needs `go` to download the modules. From each package's `generated.proto` come field numbers and wire types,
from the struct tags of its Go types the JSON names, what is inlined and what is left out when empty. Only
those facts are written, one message a line, to `src/kapi/codec/protobuf_table.json`; its format is explained
in `kapi.codec.protobuf_table`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

MODULES = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
TABLE = Path(__file__).parent.parent / "src/kapi/codec/protobuf_table.json"

# Packages that no request body comes from: webhook traffic, discovery answers, kube-apiserver's own tests.
SKIPPED = re.compile(r"/(admission|apidiscovery|imagepolicy|testapigroup)/")
STABLE = re.compile(r"v\d+$")

# Messages whose JSON form is not a plain object; the decoder has a function for each.
SPECIAL = {
    "meta/v1.Time": "@time",
    "meta/v1.MicroTime": "@microtime",
    "meta/v1.Duration": "@duration",
    "meta/v1.FieldsV1": "@raw",
    "api/resource.Quantity": "@quantity",
    "util/intstr.IntOrString": "@intorstring",
    "pkg/runtime.RawExtension": "@raw",
    "apiextensions/v1.JSON": "@raw",
    "apiextensions/v1.JSONSchemaPropsOrArray": "@schemaorlist",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "@schemaorstrings",
    "apiextensions/v1.JSONSchemaPropsOrBool": "@schemaorbool",
}
# Messages without JSON names that no field has as its type.
UNUSED = {"api/resource.QuantityValue", "pkg/runtime.Unknown"}

_MESSAGE = re.compile(r"^message (\w+) \{")
_FIELD = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);")
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) (\[\])?(?:(\w+)\.)?(\w+)$", re.MULTILINE)
_MEMBER = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]{}]+)\s+`(.*)`", re.MULTILINE)
_TAG = re.compile(r'(\w+):"([^"]*)"')
_GROUP = re.compile(r'GroupName\s*=\s*"([^"]*)"')


class Field(NamedTuple):
    """A field of a .proto message: `shape` is "", "[]" or "{}"."""

    number: int
    name: str
    shape: str
    type: str


class Member(NamedTuple):
    """A field of a Go struct, as its tags and type describe it."""

    number: int
    json: str
    omitempty: bool
    pointer: bool


class Package(NamedTuple):
    """One Go package with a .proto file in its directory."""

    name: str
    proto: str
    group: str | None
    messages: dict[str, list[Field]]
    members: dict[str, list[Member]]
    lists: set[str]
    same_as: dict[str, str]
    kinds: set[str]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Distil the protobuf table of the codec.")
    parser.add_argument("--version", default="v0.36.4", help="version of the k8s.io modules")
    version = parser.parse_args().version
    packages = [
        read_package(directory.parent)
        for module in MODULES
        for directory in sorted(download(module, version).rglob("generated.proto"))
        if wanted(directory.parent)
    ]
    messages = {line[0]: line[1] for package in packages for line in distil(package, packages)}
    kinds = {
        group_version(package): [package.name, *sorted(package.kinds & set(package.messages))]
        for package in packages
        if STABLE.match(package.name.rpartition("/")[2]) and package.kinds & set(package.messages)
    }
    used = reachable(messages, kinds)
    write({"kinds": kinds, "messages": {name: messages[name] for name in sorted(used)}})


def download(module: str, version: str) -> Path:
    """The directory of a module, downloaded if need be."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    return Path(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"])


def wanted(directory: Path) -> bool:
    """True for stable API groups and what they are made of."""
    if SKIPPED.search(directory.as_posix() + "/"):
        return False
    return STABLE.match(directory.name) is not None or directory.name in ("runtime", "intstr", "resource")


def read_package(directory: Path) -> Package:
    """Everything the table needs to know of one package."""
    proto = (directory / "generated.proto").read_text()
    package = re.search(r"^package ([\w.]+);", proto, re.MULTILINE)
    assert package is not None
    source = "\n".join(
        path.read_text()
        for path in sorted(directory.glob("*.go"))
        if not path.name.startswith(("zz_", "generated")) and not path.name.endswith("_test.go")
    )
    group = _GROUP.search(source)
    structs = dict(_STRUCT.findall(source))
    aliases = [(name, brackets, target) for name, brackets, _, target in _ALIAS.findall(source)]
    embedding = {name for name, body in structs.items() if re.search(r"^\t(metav1\.)?TypeMeta\s", body, re.MULTILINE)}
    return Package(
        name="/".join(directory.parts[-2:]).split("@")[0],
        proto=package[1],
        group=group[1] if group else None,
        messages=read_proto(proto),
        members={name: read_members(body) for name, body in structs.items()},
        lists={name for name, brackets, _ in aliases if brackets},
        same_as={name: target for name, brackets, target in aliases if not brackets},
        kinds=embedding | {name for name, _, target in aliases if target == name},
    )


def read_proto(text: str) -> dict[str, list[Field]]:
    """The messages of a .proto file."""
    messages: dict[str, list[Field]] = {}
    fields: list[Field] = []
    for line in text.splitlines():
        if message := _MESSAGE.match(line):
            fields = messages.setdefault(message[1], [])
        elif field := _FIELD.match(line):
            label, plain, value, name, number = field.groups()
            shape = "{}" if value else "[]" if label == "repeated" else ""
            fields.append(Field(int(number), name, shape, value or plain))
    return messages


def read_members(body: str) -> list[Member]:
    """The fields of a Go struct that have a protobuf tag."""
    members = []
    for _, go_type, tags in _MEMBER.findall(body):
        tag = dict(_TAG.findall(tags))
        parts = tag.get("protobuf", "").split(",")
        if len(parts) < 2 or not parts[1].isdigit():
            continue
        if tag.get("json", "-") == "-":  # part of a special type, with a JSON form of its own
            continue
        name, *options = tag["json"].split(",")
        assert name or "inline" in options, tags
        members.append(Member(int(parts[1]), name, "omitempty" in options, go_type.startswith("*")))
    return members


def distil(package: Package, packages: list[Package]) -> list[tuple[str, list[list[int | str]]]]:
    """The lines of a package's messages."""
    lines: list[tuple[str, list[list[int | str]]]] = []
    for message, fields in package.messages.items():
        name = f"{package.name}.{message}"
        if message in package.lists:
            lines.append((name, [[field.number, "*", spell(field, package, packages)] for field in fields]))
            continue
        members = {member.number: member for member in find_members(package, message, packages)}
        line: list[list[int | str]] = []
        for field in fields:
            member = members.get(field.number)
            if member is None:
                assert name in SPECIAL or name in UNUSED, f"no Go field for {name}.{field.name}"
                continue
            scalar = not field.shape and field.type[0].islower()
            optional = "?" if scalar and member.omitempty and not member.pointer else ""
            line.append([field.number, member.json, spell(field, package, packages) + optional])
        lines.append((name, line))
    return lines


def find_members(package: Package, message: str, packages: list[Package]) -> list[Member]:
    """The Go fields of a message, also where its type is declared as that of another package."""
    if message in package.members:
        return package.members[message]
    target = package.same_as.get(message, "")
    found = [other.members[target] for other in packages if target in other.members and other.name == "meta/v1"]
    return found[0] if found else []


def spell(field: Field, package: Package, packages: list[Package]) -> str:
    """The type of a field as the table writes it."""
    if field.type[0].islower():
        return field.shape + field.type
    if not field.type.startswith("."):
        name = f"{package.name}.{field.type}"
    else:
        proto, _, message = field.type[1:].rpartition(".")
        owner = next((other.name for other in packages if other.proto == proto), proto)
        name = f"{owner}.{message}"
    return field.shape + SPECIAL.get(name, name)


def group_version(package: Package) -> str:
    """The apiVersion of a package's kinds."""
    version = package.name.rpartition("/")[2]
    return f"{package.group}/{version}" if package.group else version


def reachable(messages: dict[str, list[list[int | str]]], kinds: dict[str, list[str]]) -> set[str]:
    """The messages that some kind is made of, and those the special ones are."""
    waiting = [f"{package}.{kind}" for package, *names in kinds.values() for kind in names]
    waiting.append("apiextensions/v1.JSONSchemaProps")
    used: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in messages or name in used:
            continue
        used.add(name)
        waiting += [str(field[2]).lstrip("[]{}").rstrip("?") for field in messages[name]]
    return used


def write(table: dict[str, dict[str, list[str]] | dict[str, list[list[int | str]]]]) -> None:
    """One kind list and one message a line, so that a new release shows as a readable diff."""
    sections = []
    for section, entries in table.items():
        lines = [f"{json.dumps(name)}:{json.dumps(entries[name], separators=(',', ':'))}" for name in sorted(entries)]
        sections.append(f"{json.dumps(section)}:{{\n" + ",\n".join(lines) + "\n}")
    TABLE.write_text("{" + ",\n".join(sections) + "}\n")
    print(f"{len(table['messages'])} messages, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
