"""Check the documentation: broken links, pages that no link leads to, paths of one machine.

Run by `make check`, from anywhere: `python tools/check_docs.py [ROOT]`. Standard library only, reads files and nothing
else; links to other sites are not followed, because a check that fails when a stranger's server is down teaches people
to ignore it.
"""

from __future__ import annotations

import pathlib
import re
import sys
import urllib.parse
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKIPPED = {".git", ".venv", ".peers", ".hypothesis", ".pytest_cache", "node_modules", "build", "dist"}
_FENCE = re.compile(r"^\s*(```|~~~)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'(][^)]*)?\s*\)")
_REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ANCHOR = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
_LINES = re.compile(r"^L(\d+)(?:-L(\d+))?$")
_EXTERNAL = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")
_MACHINE_PATH = re.compile(r"(?<![\w./-])(?:/root|/tmp/\w+)(?![\w-])|(?<![\w./-])/(?:home|Users)/\w+")
_UNRELEASED = re.compile(r"^## \[?Unreleased\]?", re.MULTILINE)
_INDEXES = ("README.md", "index.md")


class Line(NamedTuple):
    """A line of a page, with code spans blanked out in `prose`; lines inside fences have no prose."""

    number: int
    text: str
    prose: str


def main() -> int:
    """Print every problem below the root as `path:line: what`, and fail if there was one."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems = list(check(root))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems in the documentation" if problems else "documentation: no problems")
    return 1 if problems else 0


def check(root: pathlib.Path) -> Iterator[str]:
    """Every problem of the tree at `root`."""
    pages = sorted(page for page in root.rglob("*.md") if not _SKIPPED & set(page.relative_to(root).parts))
    for page in pages:
        yield from _check_page(root, page)
    yield from _check_reachable(root)
    changelog = root / "CHANGELOG.md"
    if not changelog.is_file() or not _UNRELEASED.search(changelog.read_text(encoding="utf-8")):
        yield "CHANGELOG.md: needs a section `## [Unreleased]`"


def _check_page(root: pathlib.Path, page: pathlib.Path) -> Iterator[str]:
    where = page.relative_to(root)
    for line in _lines(page):
        if machine := _MACHINE_PATH.search(line.text):
            yield f"{where}:{line.number}: {machine.group()!r} is a path of one machine"
        for link in _links(line):
            if problem := _broken(root, page, link):
                yield f"{where}:{line.number}: link {link!r}: {problem}"


def _check_reachable(root: pathlib.Path) -> Iterator[str]:
    """Every page below docs/ can be reached by links from its index."""
    docs = root / "docs"
    pages = set(docs.rglob("*.md"))
    if not pages:
        return
    index = next((docs / name for name in _INDEXES if docs / name in pages), None)
    if index is None:
        yield f"docs: has pages but no index ({' or '.join(_INDEXES)})"
        return
    found, waiting = {index}, [index]
    while waiting:
        page = waiting.pop()
        targets = {_target(page, link) for line in _lines(page) for link in _links(line) if not _EXTERNAL.match(link)}
        new = (targets & pages) - found
        found |= new
        waiting.extend(new)
    for page in sorted(pages - found):
        yield f"{page.relative_to(root)}: no link leads here from {index.relative_to(root)}"


def _broken(root: pathlib.Path, page: pathlib.Path, link: str) -> str | None:
    """What is wrong with a link, or None."""
    if _EXTERNAL.match(link):
        return None
    target, fragment = _target(page, link), urllib.parse.unquote(urllib.parse.urlsplit(link).fragment)
    if not target.is_relative_to(root):
        return "leads out of the repository"
    if not target.exists():
        return "no such file"
    if not fragment or target.is_dir():
        return None
    if target.suffix == ".md":
        return None if fragment in _anchors(target) else "no such heading"
    lines = _LINES.match(fragment)
    if lines is None:
        return "only Markdown files have headings"
    length = len(target.read_text(encoding="utf-8").splitlines())
    return None if all(int(n) <= length for n in lines.groups() if n) else f"the file has {length} lines"


def _target(page: pathlib.Path, link: str) -> pathlib.Path:
    path = urllib.parse.unquote(urllib.parse.urlsplit(link).path)
    return (page.parent / path).resolve() if path else page


def _links(line: Line) -> list[str]:
    return [*_INLINE.findall(line.prose), *_REFERENCE.findall(line.prose)]


def _lines(page: pathlib.Path) -> Iterator[Line]:
    fenced = False
    for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if _FENCE.match(text):
            fenced = not fenced
            yield Line(number, text, "")
        else:
            yield Line(number, text, "" if fenced else _CODE.sub("", text))


def _anchors(page: pathlib.Path) -> set[str]:
    """The fragments a page answers to, made from its headings the way forges do."""
    anchors: set[str] = set()
    fenced = False
    for text in page.read_text(encoding="utf-8").splitlines():
        fenced ^= bool(_FENCE.match(text))
        anchors.update(_ANCHOR.findall(text))
        if not fenced and (heading := _HEADING.match(text)):
            slug, count = _slug(heading.group(1)), 0
            while (numbered := f"{slug}-{count}" if count else slug) in anchors:
                count += 1
            anchors.add(numbered)
    return anchors


def _slug(heading: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
