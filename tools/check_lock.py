"""Check that requirements/dev.txt, the lock, agrees with pyproject.toml. Needs no network.

Everything that pyproject.toml requires, and everything that those packages require in turn, is locked to one version
that all of them allow; each version has the hashes of its files; nothing else is locked; the lock names no index, so
that any mirror of PyPI will do. What packages require is read from those that are installed.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import sys
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCK = "requirements/dev.txt"
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}$")


@dataclass
class Locked:
    """One locked package: `name==version ; marker`, and how many hashes it has."""

    requirement: Requirement
    hashes: int = 0

    @property
    def name(self) -> str:
        """The name in its normal form."""
        return canonicalize_name(self.requirement.name)

    @property
    def is_for_this_python(self) -> bool:
        """Return True if the marker applies to the Python that runs this."""
        return self.requirement.marker is None or self.requirement.marker.evaluate()

    def allows(self, wanted: Requirement) -> bool:
        """Return True if the locked version satisfies a requirement."""
        return wanted.specifier.contains(str(self.requirement.specifier).removeprefix("=="), prereleases=True)


@dataclass
class Lock:
    """The lock file, read, with what is wrong in its lines."""

    packages: list[Locked] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Lock:
        """Read the text of a lock file."""
        lock = cls()
        for line in text.splitlines():
            content = line.removesuffix("\\").strip()
            if not content or content.startswith("#"):
                continue
            if _HASH.match(content) and lock.packages:
                lock.packages[-1].hashes += 1
            elif re.match(r"[A-Za-z0-9._-]+==[^ ]+( ; .+)?$", content):
                lock.packages.append(Locked(Requirement(content)))
            else:
                lock.problems.append(f"{content!r} is neither name==version nor a sha256 hash")
        lock.problems += [f"{each.name} has no hashes" for each in lock.packages if not each.hashes]
        return lock

    def satisfies(self, wanted: Requirement) -> bool:
        """Return True if a package is locked that satisfies a requirement on this Python."""
        name = canonicalize_name(wanted.name)
        return any(each.name == name and each.is_for_this_python and each.allows(wanted) for each in self.packages)


def project_requirements(project: dict[str, object]) -> Iterator[Requirement]:
    """Yield the requirements of pyproject.toml that the lock covers: to run, to build, and of the extra `dev`."""
    table: dict[str, list[str]] = project["project"]["optional-dependencies"]  # type: ignore[index]
    texts: list[str] = [*project["build-system"]["requires"], *project["project"]["dependencies"]]  # type: ignore[index]
    extras, seen = ["dev"], set[str]()
    while extras:
        extra = extras.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for text in table[extra]:
            requirement = Requirement(text)
            if requirement.name == "kapi":
                extras += requirement.extras
            else:
                texts.append(text)
    yield from map(Requirement, texts)


def closure(wanted: Iterable[Requirement]) -> Iterator[Requirement]:
    """Yield requirements and, as far as packages are installed, what those require in turn on this Python."""
    pending, seen = list(wanted), set[str]()
    while pending:
        requirement = pending.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        yield requirement
        known = f"{canonicalize_name(requirement.name)}[{','.join(sorted(requirement.extras))}]"
        if known in seen:
            continue
        seen.add(known)
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for text in distribution.requires or ():
            further = Requirement(text)
            extras = requirement.extras or {""}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                further.marker = None
                pending.append(further)


def problems(project_text: str, lock_text: str) -> list[str]:
    """Return what is wrong with a lock for a pyproject.toml."""
    lock = Lock.read(lock_text)
    found = list(lock.problems)
    needed: set[str] = set()
    for requirement in closure(project_requirements(tomllib.loads(project_text))):
        needed.add(canonicalize_name(requirement.name))
        if not lock.satisfies(requirement):
            found.append(f"{requirement} is required and not locked")
    found += [
        f"{each.name} is locked and not required"
        for each in lock.packages
        if each.is_for_this_python and each.name not in needed
    ]
    return list(dict.fromkeys(found))


def main() -> int:
    """Print what is wrong; the exit status is 1 if anything is."""
    found = problems((ROOT / "pyproject.toml").read_text(encoding="utf-8"), (ROOT / LOCK).read_text(encoding="utf-8"))
    for problem in found:
        print(f"{LOCK}: {problem}; run: make lock")
    if not found:
        print("lock: no problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
