"""Reading manifests: files, folders and standard input, YAML or JSON, many objects to a file, Lists taken apart.

Reading is local; nothing here talks to a server. A manifest that cannot be used is named by its file and the number of
the document in it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.api.meta import GroupVersion, GroupVersionKind
from kapi.cli.printer import CommandError
from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.meta import Object

EXTENSIONS: Final = frozenset({".json", ".yaml", ".yml"})
STDIN: Final = "STDIN"
_SEPARATOR: Final = re.compile(rb"^---(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object and the file it was read from. `apiVersion`, `kind` and `metadata` are of the right types."""

    obj: Object
    source: str
    gvk: GroupVersionKind

    @property
    def name(self) -> str:
        """Its name; empty when the server is to make one up."""
        return self.obj["metadata"].get("name") or ""

    @property
    def namespace(self) -> str:
        """The namespace it asks for; empty when it does not say."""
        return self.obj["metadata"].get("namespace") or ""


def read(paths: Sequence[str], *, recursive: bool = False) -> list[Manifest]:
    """All manifests of files, folders and `-`, in order.

    Raises:
        CommandError: something cannot be read, or is not a manifest.
    """
    if paths.count("-") > 1:
        raise CommandError("standard input can be read only once: -f - was given more than once")
    return [
        manifest
        for path in paths
        for source, data in _sources(path, recursive=recursive)
        for manifest in parse(data, source)
    ]


def parse(data: bytes, source: str) -> Iterator[Manifest]:
    """The manifests in one file."""
    documents = _documents(data, source)
    for index, document in enumerate(documents, start=1):
        if document is not None:
            where = f"{source} (document {index})" if len(documents) > 1 else source
            yield from _manifests(document, source, where)


def _sources(path: str, *, recursive: bool) -> Iterator[tuple[str, bytes]]:
    if path == "-":
        yield STDIN, sys.stdin.buffer.read()
        return
    if path.startswith(("http://", "https://")):
        raise CommandError(f"{path}: manifests are read from files; fetch it and pass it with -f -")
    root = Path(path)
    if not root.exists():
        raise CommandError(f'the path "{path}" does not exist')
    files = list(_files(root, recursive=recursive)) if root.is_dir() else [root]
    if not files:
        raise CommandError(f"{path}: no manifests in it; recognized file extensions are .json, .yaml and .yml")
    for file in files:
        try:
            yield str(file), file.read_bytes()
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror or error}") from None


def _files(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if recursive:
                yield from _files(entry, recursive=True)
        elif entry.suffix in EXTENSIONS:
            yield entry


def _documents(data: bytes, source: str) -> list[Any]:
    if data.lstrip()[:1] == b"{":
        try:
            return [json.decode(data)]
        except DecodeError:
            pass  # flow style, several documents, or broken; the YAML reader says which
    try:
        return yaml.decode_all(data)
    except DecodeError as error:
        raise CommandError(f"{_broken(data, source)}: {error}") from None


def _broken(data: bytes, source: str) -> str:
    """The file and the document in it that is the first not to be YAML."""
    chunks = _SEPARATOR.split(data)
    if not chunks[0].strip():
        chunks = chunks[1:]
    if len(chunks) > 1:
        for index, chunk in enumerate(chunks, start=1):
            try:
                yaml.decode_all(chunk)
            except DecodeError:
                return f"{source} (document {index})"
    return source


def _manifests(document: Any, source: str, where: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise CommandError(f"{where}: expected an object with apiVersion and kind, found {_sort(document)}")
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise CommandError(f"{where}: {key} is not set")
    if isinstance(document.get("items"), list) and document["kind"].endswith("List"):
        for index, item in enumerate(document["items"]):
            yield from _manifests(_typed(item, document), source, f"{where}, items[{index}]")
        return
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise CommandError(f"{where}: metadata must be an object, found {_sort(metadata)}")
    for key in ("name", "namespace"):
        # YAML reads `n` as false and `1e3` as a number; taken for "not set" they would end up in another namespace.
        if metadata and not isinstance(metadata.get(key), str | None):
            raise CommandError(f"{where}: metadata.{key} must be a string; put it in quotes")
    try:
        group, version = GroupVersion.parse(document["apiVersion"])
    except ValueError as error:
        raise CommandError(f"{where}: apiVersion: {error}") from None
    obj = document if metadata is not None else {**document, "metadata": {}}
    yield Manifest(obj, source, GroupVersionKind(group, version, document["kind"]))


def _typed(item: Any, listed: Object) -> Any:
    """An item of a typed list, such as a PodList, which need not say what it is."""
    kind = listed["kind"].removesuffix("List")
    return {"apiVersion": listed["apiVersion"], "kind": kind, **item} if isinstance(item, dict) and kind else item


def _sort(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    sorts: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return sorts.get(type(value), "a number")
