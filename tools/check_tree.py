"""Check what the other tools cannot see: sizes, names, docstrings, plain words, and asyncio's streams in pure packages.

Run by `make check`, from anywhere: `python tools/check_tree.py [ROOT]`. Standard library only; it reads the sources and
imports none of them. The import rules themselves are in `.importlinter`.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_LINES = 900
_MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "misc"}
_PURE = {"api", "schema", "registry", "informer", "controller"}
_STREAMS = {
    "StreamReader",
    "StreamWriter",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "open_connection",
    "open_unix_connection",
    "start_server",
    "start_unix_server",
}
_GENERATED = pathlib.PurePosixPath("src/kapi/api/builtin")
_TEXTS = (
    "src/kapi/**/*.py",
    "docs/**/*.md",
    "examples/**/*.py",
    "examples/**/*.md",
    "examples/**/*.yaml",
    "bench/**/*.py",
    "tools/**/*.py",
    "generate/**/*.py",
    "*.md",
    "Makefile",
    "hatch_build.py",
)
_TESTS = "tests/**/*.py"
_WORDS = {
    "anybody|everybody|somebody|someone|nobody|whoever": "name the client, the user, the caller or the watcher",
    "beside": "next to; off the event loop",
    "bur(?:y|ies|ied|ying)": "delete",
    "excus(?:e|es|ed|ing)": "allow, skip",
    "forsak(?:e|es|en|ing)": "abandon",
    "furnish(?:es|ed|ing)?": "populate",
    "goes away": "is deleted, ends",
    "housekeeping|(?:keep|keeps|kept|keeping) house": "built-in controllers",
    "judg(?:e|es|ed|ing|ement)": "validate",
    "rooms?": "package",
    "settl(?:e|es|ed|ing)": "resolve, finish, release",
    "(?:take|takes|taking|taken|took) leave": "shut down",
    "the reference": "kube-apiserver",
}
"""Words that an engineer of Kubernetes would not search for, as regular expressions, and what to write instead."""
_ALLOWED = re.compile(
    r"the reference (?:count|cycle|documentation|manual|page|to )|room (?:for|to) |settled(?=\(|`)", re.IGNORECASE
)
"""Phrases in which such a word is plain. A message of Kubernetes that contains one is listed here, word for word."""
_FORBIDDEN = re.compile(rf"(?<![a-z])(?:{'|'.join(f'({word})' for word in _WORDS)})(?![a-z])", re.IGNORECASE)


def main() -> int:
    """Print every problem below the root as `path:line: what`, and fail if there was one."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems = list(check(root))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems in the tree" if problems else "tree: no problems")
    return 1 if problems else 0


def check(root: pathlib.Path) -> Iterator[str]:
    """Every problem of the sources of the tree at `root`."""
    for path in sorted((root / "src" / "kapi").rglob("*.py")):
        where = path.relative_to(root)
        if not where.is_relative_to(_GENERATED):
            yield from _check_module(where, path.read_text(encoding="utf-8"))
    yield from _check_words(root)


def _check_words(root: pathlib.Path) -> Iterator[str]:
    """Find words that are not plain: anywhere in sources and documentation, and in the names of tests."""
    for path in sorted({path for pattern in (*_TEXTS, _TESTS) for path in root.glob(pattern) if path.is_file()}):
        where = path.relative_to(root)
        if where.is_relative_to(_GENERATED) or path.name == pathlib.Path(__file__).name:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if where.parts[0] != "tests" or re.match(r"\s*(?:async )?def test_", line):
                text = line if where.parts[0] != "tests" else line.replace("_", " ")
                for found in _FORBIDDEN.finditer(_ALLOWED.sub("", text)):
                    instead = list(_WORDS.values())[(found.lastindex or 1) - 1]
                    yield f"{where}:{number}: {found[0]!r} is not plain; write: {instead}"


def _check_module(where: pathlib.Path, source: str) -> Iterator[str]:
    lines = source.count("\n")
    if lines > _MOST_LINES:
        yield f"{where}: {lines} lines; split it before {_MOST_LINES}"
    if taken := _MEANINGLESS & {where.stem, *where.parts}:
        yield f"{where}: {taken.pop()!r} does not say what is inside"
    tree = ast.parse(source, filename=str(where))
    if tree.body and not ast.get_docstring(tree):
        yield f"{where}: the module has no docstring"
    if where.parts[2] in _PURE:
        yield from (f"{where}:{line}: asyncio.{name} is I/O" for line, name in _asyncio_names(tree) if name in _STREAMS)


def _asyncio_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names a module uses of asyncio, as attributes or by import."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="asyncio"), attr=name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "asyncio":
                yield from ((node.lineno, alias.name) for alias in names)


if __name__ == "__main__":
    sys.exit(main())
