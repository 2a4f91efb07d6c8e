"""The build hook: wheels and editable installs get the generated schemas and classes of the built-in kinds.

A source distribution carries the generators instead of their output, so a wheel built from it is made the same way as
one built from a checkout. All the work is in `generate/`; this file only introduces it to hatchling.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateBuiltins(BuildHookInterface[Any]):
    """Runs the generators before hatchling collects the files of a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the generated files up to date; `version` is `standard` or `editable`, both need them."""
        if self.target_name != "wheel":
            return
        regenerate(pathlib.Path(self.root))


def regenerate(root: pathlib.Path) -> bool:
    """Run the generators of the tree at `root`, which build front ends do not put on the import path."""
    sys.path.insert(0, str(root))
    try:
        from generate.build import generate

        return generate(root)
    finally:
        sys.path.remove(str(root))


if __name__ == "__main__":
    regenerate(pathlib.Path(__file__).resolve().parent)
