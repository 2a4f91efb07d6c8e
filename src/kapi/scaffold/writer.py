"""Writes the files of a project: all of them or, when one is in the way, none.

A file that exists and was not written by kapi, or a generated file that was edited, is a conflict; nothing is
overwritten without `force`. Files that are the user's to edit are written once and then left alone.

Files are written to a staging folder first and then moved, generated ones after the others and PROJECT last. A run that
is interrupted can be repeated: what is in place already is identical and skipped.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kapi.base.failpoint import failpoint
from kapi.scaffold.project import FILE_NAME, ProjectError, project_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kapi.scaffold.project import Project

_STAGING: Final = ".kapi-staging"


@dataclass(frozen=True, slots=True)
class File:
    """The wanted contents of one file."""

    text: str
    is_generated: bool = False
    """True for a file that is made again from PROJECT or from code, and is not to be edited."""


@dataclass(slots=True)
class Outcome:
    """The paths that were written, and those that were left alone because the user has edited them."""

    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Conflict(ProjectError):
    """Files exist that kapi would have to overwrite; the text lists them."""


def digest(text: str) -> str:
    """Return the digest that PROJECT has of a file."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(
    root: Path, project: Project, files: Mapping[str, File], *, force: bool = False, upgrade: bool = False
) -> Outcome:
    """Write files and the PROJECT of a project to a folder; with `upgrade`, replace files that were not edited, too.

    Raises:
        Conflict: something is in the way; nothing was written.
    """
    outcome, conflicts = Outcome(), []
    for path, file in files.items():
        match _verdict(root, path, file, project.files.get(path), upgrade=upgrade):
            case "write":
                outcome.written.append(path)
            case "keep" if not force:
                outcome.kept.append(path)
            case "conflict" if not force:
                conflicts.append(path)
            case "keep" | "conflict":
                outcome.written.append(path)
            case _:
                project.files[path] = digest(file.text)
    if conflicts:
        raise Conflict(
            "these files exist and are not as kapi wrote them; --force overwrites them:\n"
            + "\n".join(f"  {path}" for path in conflicts)
        )
    project.files = dict(sorted({**project.files, **{one: digest(files[one].text) for one in outcome.written}}.items()))
    outcome.written.sort(key=lambda path: files[path].is_generated)
    _move_in(root, {path: files[path].text for path in outcome.written} | _project_file(root, project))
    return outcome


def stale(root: Path, files: Mapping[str, File]) -> list[str]:
    """Return the paths whose files are missing or differ from what they should be."""
    return [path for path, file in files.items() if _read(root / path) != file.text]


def _verdict(root: Path, path: str, file: File, recorded: str | None, *, upgrade: bool) -> str:
    found = _read(root / path)
    if found is None:
        return "write"
    if found == file.text:
        return "same"
    is_edited = digest(found) != recorded
    if recorded is None or (file.is_generated and is_edited):
        return "conflict"
    return "write" if file.is_generated or (upgrade and not is_edited) else "keep"


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _project_file(root: Path, project: Project) -> dict[str, str]:
    text = project_text(project)
    return {} if _read(root / FILE_NAME) == text else {FILE_NAME: text}


def _move_in(root: Path, texts: Mapping[str, str]) -> None:
    """Write texts to a staging folder, then move them to their places in order."""
    if not texts:
        return
    staging = root / _STAGING
    shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
    try:
        for number, text in enumerate(texts.values()):
            staging.mkdir(exist_ok=True)
            (staging / str(number)).write_text(text, encoding="utf-8", newline="\n")
        for number, path in enumerate(texts):
            failpoint("scaffold.before_move")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / str(number)).replace(root / path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
