"""The loader of classes named on a command line: `module:Class`, or `module` for every kind in it."""

from __future__ import annotations

import importlib
import traceback
from typing import TYPE_CHECKING

from kapi.api.crd import CustomResource, Naming, naming_of

if TYPE_CHECKING:
    from types import ModuleType


class NotLoaded(Exception):
    """A module or class cannot be loaded; the message is one line."""


def load(target: str) -> list[type[CustomResource]]:
    """The classes a target names, in the order of their definition.

    Raises:
        NotLoaded: there is no such module or class, it cannot be imported, or it is no kind.
    """
    name, colon, attribute = target.partition(":")
    if not name or (colon and not attribute):
        raise NotLoaded(f"{target!r} is not of the form module:Class or module")
    module = _import(name)
    return [_kind(module, attribute)] if attribute else _kinds(module)


def _import(name: str) -> ModuleType:
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise NotLoaded(f"{name!r} is not the name of a module; write package.module, without slashes or .py")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise NotLoaded(f"there is no module {name}, neither here nor installed") from None
        raise NotLoaded(_failure(name, error)) from None
    except SystemExit as error:
        raise NotLoaded(f"{name} exits when it is imported ({error.code})") from None
    except Exception as error:
        raise NotLoaded(_failure(name, error)) from None


def _failure(name: str, error: Exception) -> str:
    """Return the error that a module raised at its import, and the line of the module."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{name} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}{where}"


def _kind(module: ModuleType, attribute: str) -> type[CustomResource]:
    found = vars(module).get(attribute)
    if found is None:
        raise NotLoaded(f"{module.__name__} has no {attribute}")
    if not isinstance(found, type) or not issubclass(found, CustomResource):
        raise NotLoaded(f"{module.__name__}:{attribute} is no custom kind: it must be a subclass of CustomResource")
    try:
        naming_of(found)
    except TypeError as error:
        raise NotLoaded(f"{module.__name__}: {error}") from None
    return found


def _kinds(module: ModuleType) -> list[type[CustomResource]]:
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, CustomResource)
        and isinstance(value.__dict__.get("naming"), Naming)
    ]
    if not found:
        raise NotLoaded(f"{module.__name__} has no class decorated with @resource")
    return list(dict.fromkeys(found))
