"""The build hook: wheels and editable installs get the generated schemas and classes of the built-in kinds.

A source distribution carries the generators instead of their output, so a wheel built from it is made the same way as
one built from a checkout. A wheel is plain Python, unless the variable KAPI_COMPILE asks for a compiled one, which
needs a C compiler and the headers of Python. All the work is in `generate/`; this file only introduces it to hatchling.
"""

from __future__ import annotations

import os
import pathlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterator


class GenerateBuiltins(BuildHookInterface[Any]):
    """Runs the generators before hatchling collects the files of a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs besides what pyproject.toml names."""
        return ["mypy>=2.4", "setuptools"] if self.target_name == "wheel" and is_to_be_compiled() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the generated files up to date; `version` is `standard` or `editable`, both need them."""
        if self.target_name != "wheel":
            return
        root = pathlib.Path(self.root)
        regenerate(root)
        if version == "standard" and is_to_be_compiled():
            build_data["force_include"].update(extensions(root))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def is_to_be_compiled() -> bool:
    """Return True if the environment asks for a compiled wheel."""
    return os.environ.get("KAPI_COMPILE", "0") not in ("", "0")


def regenerate(root: pathlib.Path) -> bool:
    """Run the generators of the tree at `root`."""
    with _importable(root):
        from generate.build import generate

        return generate(root)


def extensions(root: pathlib.Path) -> dict[str, str]:
    """Compile for the Python that runs this; returns the files that were made, and where they are in the wheel."""
    with _importable(root):
        from generate.extensions import build

        folder = root / "build" / f"compiled-{sys.implementation.cache_tag}"
        return {str(folder / path): path for path in build(root, folder)}


@contextmanager
def _importable(root: pathlib.Path) -> Iterator[None]:
    """Build front ends do not put the tree on the import path."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


if __name__ == "__main__":
    regenerate(pathlib.Path(__file__).resolve().parent)
