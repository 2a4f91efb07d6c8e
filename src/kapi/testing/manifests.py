"""Objects that tests give as classes, dictionaries, or YAML files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.api.crd import CustomResource, definition, naming_of
from kapi.codec import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_DEFINITION: Final = "CustomResourceDefinition"


def definitions(given: Iterable[Any]) -> Iterator[Object]:
    """Return CustomResourceDefinitions; classes of one kind, one for each version, make one definition.

    Files may hold other objects too, as a folder of manifests does; they are left out.
    """
    kinds: dict[tuple[str, str], list[type[CustomResource]]] = {}
    for one in given:
        if isinstance(one, type) and issubclass(one, CustomResource):
            naming = naming_of(one)
            kinds.setdefault((naming.gvk.group, naming.plural), []).append(one)
        else:
            yield from (obj for obj in objects_of([one]) if obj.get("kind") == _DEFINITION)
    for classes in kinds.values():
        yield definition(*classes)


def objects_of(given: Iterable[Any]) -> Iterator[Any]:
    """Return objects: those given, and those in the YAML or JSON files and folders whose paths are given."""
    for one in given:
        if isinstance(one, str | Path):
            yield from _read(Path(one))
        else:
            yield one


def _read(path: Path) -> Iterator[Object]:
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.suffix in _SUFFIXES:
                yield from _read(file)
        return
    for document in yaml.decode_all(path.read_bytes()):
        if isinstance(document, dict):
            items = document.get("items")
            yield from items if isinstance(items, list) and "metadata" not in document else (document,)
