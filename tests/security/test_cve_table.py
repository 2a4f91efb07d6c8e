"""The table of past vulnerabilities: the tests that it names exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "vulnerabilities.md"


def _tests_of(path):
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def _named():
    """Each test that the page names, with the file it is said to be in."""
    for line in PAGE.read_text().splitlines():
        for part in re.split(r"(?=\[test_)", line)[1:]:
            link = re.match(r"\[[^]]*\]\(([^)]*)\)", part)
            path = (PAGE.parent / link[1]).resolve()
            names = re.findall(r"`(test_\w+)`", part)
            yield from ((path, name) for name in names or [None])


def test_every_test_that_the_table_names_exists():
    named = list(_named())
    assert len(named) > 40
    missing = [(path.name, name) for path, name in named if not path.exists() or (name and name not in _tests_of(path))]
    assert missing == []


def test_every_test_that_is_named_after_a_vulnerability_is_in_the_table():
    """Or another test of the same vulnerability is."""
    page = PAGE.read_text()
    for path in (ROOT / "tests" / "security").glob("test_*.py"):
        for name in _tests_of(path):
            for year, number in re.findall(r"cve_(\d{4})_(\d+)", name):
                assert f"{year}-{number}" in page, name
