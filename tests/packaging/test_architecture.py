"""ARCHITECTURE.md names functions that exist, in the files it links to, and stays short."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[`[^`]+`\]\(([^)]+)\)")
NAME = re.compile(r"`([A-Za-z_][\w.]*)`")


def rows(title):
    """The second cells of a section's table."""
    section = PAGE.split(f"## {title}", 1)[1].split("\n## ", 1)[0]
    return [line.split("|")[2] for line in section.splitlines() if line.startswith("| ") and "](src/" in line]


@pytest.mark.parametrize("title", ["One watch event", "One reconcile"])
def test_every_function_of_a_walk_is_in_the_file_it_is_listed_under(title):
    checked = 0
    for row in rows(title):
        # A row is: link, names in that file, link, names in that file, ...
        _, *parts = LINK.split(row)
        for path, text in zip(parts[::2], parts[1::2], strict=True):
            source = (ROOT / path).read_text(encoding="utf-8")
            for name in NAME.findall(text):
                for part in name.split("."):
                    assert re.search(rf"\b(def|class) {part}\b", source), f"{path} has no {part}"
                    checked += 1
    assert checked > 10


def test_every_package_is_in_the_table():
    table = PAGE.split("## Packages", 1)[1].split("\n## ", 1)[0]
    packages = {path.parent.name for path in (ROOT / "src" / "kapi").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| \[`(\w+)`\]", table, re.MULTILINE))


def test_the_page_can_be_read_in_one_sitting():
    assert len(PAGE.splitlines()) <= 200
