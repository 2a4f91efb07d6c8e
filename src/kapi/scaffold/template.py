"""The templates of scaffolded files: texts in which `<<name>>` stands for a value.

They are files of the package `templates`, named after what they become with `.tmpl` added. A template has no
conditions and no loops: what differs from project to project is a value, or another template.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_VALUE: Final = re.compile(r"<<([a-z_]+)>>")


def render(name: str, values: Mapping[str, str]) -> str:
    """Return the text of a template with the values in their places; KeyError for a value that is not given."""
    text = resources.files("kapi.scaffold").joinpath("templates", f"{name}.tmpl").read_text(encoding="utf-8")
    return _VALUE.sub(lambda found: values[found[1]], text)
