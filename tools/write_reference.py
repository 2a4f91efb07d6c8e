"""Writes the reference pages that are made from the code, so that they cannot go stale.

`python tools/write_reference.py` writes them; `--check` fails when one is out of date, which is how CI uses it.
"""

from __future__ import annotations

import ast
import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Made by tools/write_reference.py; do not edit. -->\n"


def resources() -> str:
    """Every resource that is served, as a table."""
    from kapi.registry.builtins import GROUPS

    lines = [
        "# Resources",
        "",
        NOTE,
        "What is served, in discovery order. `status` and the other sub-resources are listed with their parent.",
        "",
        "| group version | resource | kind | scope | short | sub-resources |",
        "|---|---|---|---|---|---|",
    ]
    for group in GROUPS:
        name = f"{group.group}/{group.version}" if group.group else group.version
        for row in group.rows:
            scope = "namespaced" if row.namespaced else "cluster"
            subs = ", ".join(sub.name for sub in row.subresources)
            lines.append(f"| {name} | {row.resource} | {row.kind} | {scope} | {', '.join(row.short_names)} | {subs} |")
    return "\n".join(lines) + "\n"


def limits() -> str:
    """The table of limits, with the words that stand below each."""
    source = (ROOT / "src/kapi/api/limits.py").read_text()
    from kapi.api import limits as values

    lines = [
        "# Limits",
        "",
        NOTE,
        "Checked before or while parsing, never after.",
        "",
        "| limit | value | |",
        "|---|---|---|",
    ]
    body = ast.parse(source).body
    for statement, following in pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            name = statement.target.id
            text = " ".join(str(following.value.value).split())
            lines.append(f"| {name} | {getattr(values, name):,} | {text} |")
    return "\n".join(lines) + "\n"


PAGES = {"docs/reference/resources.md": resources, "docs/reference/limits.md": limits}


def main(arguments: list[str]) -> int:
    """Write or check every page."""
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    for name in stale:
        print(f"{name} is out of date: run python tools/write_reference.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
