"""Another Kapi to compare this tree with: a commit, a folder with a source tree, or a Python that has Kapi installed.

The sources of a commit are unpacked below `.peers/compare`, where they stay for the next run. They run with the
packages of this virtual environment, and what the build generates is made by their own generators.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from bench.target import environment
from generate import extensions

KEPT = 4
"""Commits whose sources are kept."""
_PARTS = ("src", "generate")


class NoSuchTree(Exception):
    """There is nothing to compare with; the text says why."""


@dataclass(frozen=True)
class Tree:
    """A Kapi that can be started."""

    name: str
    python: str = sys.executable
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_sources(cls, name: str, folder: Path) -> Tree:
        """The sources in a folder, with the packages of this virtual environment."""
        return cls(name, variables={"PYTHONPATH": str(folder / "src")})

    def location(self) -> str:
        """The folder of the package `kapi` that this one imports."""
        script = "import os, kapi; print(os.path.dirname(kapi.__file__))"
        return _output([self.python, "-c", script], env=environment(self.variables))


def this_tree(root: Path, name: str = "this tree") -> Tree:
    """The tree that this program belongs to."""
    return _checked(Tree.of_sources(name, root), root)


def compiled(root: Path) -> Tree:
    """The tree that this program belongs to, compiled as for a wheel."""
    folder = root / ".peers" / "compare" / "compiled"
    sys.stderr.write("  compiling\n")
    try:
        made = extensions.build(root, folder)
    except extensions.NotBuilt as error:
        raise NoSuchTree(f"this tree cannot be compiled: {error}") from None
    # The modules that mypyc has read are edited copies; those that are not compiled, and tracebacks, need the source.
    shutil.rmtree(folder / "src", ignore_errors=True)
    shutil.copytree(root / "src" / "kapi", folder / "src" / "kapi", ignore=shutil.ignore_patterns("__pycache__"))
    for path in made:
        shutil.copy(folder / path, folder / "src" / path)
    return _checked(Tree.of_sources("compiled", folder), folder)


def find(text: str, root: Path) -> Tree:
    """Return what the text names: a folder, a Python, or else a commit."""
    path = Path(text)
    if (path / "src" / "kapi").is_dir():
        _generate(path)
        return _checked(Tree.of_sources(text, path.resolve()), path.resolve())
    if path.is_file() and os.access(path, os.X_OK):
        tree = Tree(text, python=str(path.absolute()))
        tree.location()
        return tree
    commit = _output(["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{text}^{{commit}}"])
    folder = _unpacked(commit, root)
    return _checked(Tree.of_sources(f"{text} ({commit[:7]})" if text != commit[:7] else text, folder), folder)


def version(python: str) -> str:
    """The version of a Python, and of the Kapi in it, with its form: `3.11.2, Kapi 0.1.0 (compiled by mypyc)`."""
    script = (
        "import platform; from kapi.base.version import described; "
        "print(platform.python_version(), described(), sep=', Kapi ')"
    )
    try:
        return _output([python, "-c", script])
    except OSError as error:
        raise NoSuchTree(f"{python}: {error.strerror}") from None


def _checked(tree: Tree, folder: Path) -> Tree:
    """Make sure that it is these sources that run, and not those that are installed."""
    location = Path(tree.location())
    if not location.is_relative_to(folder):
        raise NoSuchTree(f"{tree.name}: Python imports kapi from {location}, not from {folder}")
    return tree


def _unpacked(commit: str, root: Path) -> Path:
    """The folder with the sources of a commit."""
    kept = root / ".peers" / "compare"
    folder = kept / commit
    if not folder.is_dir():
        _forget(kept)
        partial = kept / f"{commit}.{os.getpid()}"
        archive = subprocess.run(
            ["git", "-C", str(root), "archive", "--format=zip", commit, *_PARTS], capture_output=True, check=True
        )
        with zipfile.ZipFile(BytesIO(archive.stdout)) as sources:
            sources.extractall(partial)
        _generate(partial)
        try:
            partial.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
    os.utime(folder)
    return folder


def _forget(kept: Path) -> None:
    """Remove the sources that were not used for the longest time, to have space for one more."""
    if kept.is_dir():
        folders = sorted(kept.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for folder in folders[: max(0, len(folders) - KEPT + 1)]:
            shutil.rmtree(folder, ignore_errors=True)


def _generate(folder: Path) -> None:
    _output([sys.executable, "-m", "generate"], cwd=folder, env=environment({"PYTHONPATH": str(folder.resolve())}))


def _output(command: list[str], **options: object) -> str:
    finished: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, check=False, **options
    )
    if finished.returncode:
        problem = finished.stderr.strip().rpartition("\n")[2] or f"it ended with {finished.returncode}"
        raise NoSuchTree(f"{' '.join(command)}: {problem}")
    return finished.stdout.strip()
