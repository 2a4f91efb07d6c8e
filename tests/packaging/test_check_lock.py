"""The lock of `make venv` agrees with pyproject.toml, and the check of that finds what it promises to find."""

import pathlib

import pytest

from tools.check_lock import LOCK, problems

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text()
LOCKED = (ROOT / LOCK).read_text()


def test_the_lock_has_no_problems():
    assert problems(PROJECT, LOCKED) == []


def test_the_lock_names_no_server():
    assert "://" not in LOCKED
    assert "--index" not in LOCKED
    assert "--find-links" not in LOCKED


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"msgspec>=0.20",\n  "prom', '"msgspec>=999",\n  "prom', "msgspec>=999 is required and not locked"),
        ('"yarl>=1.9",', '"yarl>=1.9",\n  "flask",', "flask is required and not locked"),
        ('  "import-linter>=2.1",\n', "", "import-linter is locked and not required"),
    ],
)
def test_a_change_of_the_requirements_is_found(old, new, problem):
    assert old in PROJECT
    assert problem in problems(PROJECT.replace(old, new), LOCKED)


def test_a_locked_package_without_hashes_is_found():
    lines = LOCKED.splitlines(keepends=True)
    start = next(index for index, line in enumerate(lines) if line.startswith("yarl=="))
    assert problems(PROJECT, "".join(lines[: start + 1])) == ["yarl has no hashes"]


@pytest.mark.parametrize(
    "line", ["--index-url https://example.com/simple", "yarl>=1.9", "yarl @ https://example.com/y.whl"]
)
def test_a_line_that_locks_nothing_is_found(line):
    assert problems(PROJECT, f"{LOCKED}{line}\n") == [f"{line!r} is neither name==version nor a sha256 hash"]


def test_a_package_that_only_another_package_requires_must_be_locked():
    lines = LOCKED.splitlines(keepends=True)
    start = next(index for index, line in enumerate(lines) if line.startswith("multidict=="))
    end = next(index for index in range(start + 1, len(lines)) if not lines[index].startswith(" "))
    found = problems(PROJECT, "".join(lines[:start] + lines[end:]))
    assert found
    assert all(problem.startswith("multidict") and problem.endswith("required and not locked") for problem in found)
