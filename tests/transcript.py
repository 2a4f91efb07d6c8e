"""Terminal sessions as tests: a transcript is what a person would see, and running it must show the same.

A line that starts with `$ ` is a command (`> ` continues it), the lines below it are what the terminal shows, both
streams together. An exit status other than 0 is written as `[1]` on the last line. A line `...` stands for any number
of lines. What differs from run to run has a name: `<age>`, `<time>`, `<uid>`, `<rv>`, `<server>`, `<ns>` (the test's own
namespace, in commands too). Runs of blanks between columns count as two, because their width depends on the age of the objects.

Transcripts are written as the newest kubectl shows them; where older ones say the same in other words, `OLDER` knows.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

COMMAND_SECONDS = 60

_NAMED = (
    (re.compile(r"https://127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r'(resourceVersion"?: )"\d+"'), r"\1<rv>"),
    # An age is a cell of a table, alone between blanks or at the edge. Nothing here grows older than minutes.
    (re.compile(r"(?m)(?:(?<=\s\s)|^)(?:\d+m)?\d+s(?=\s|$)"), "<age>"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
    (re.compile(r"(?m)[ \t]+$"), ""),
)

# (the minor version that introduced the new text, the new text, the old text)
OLDER = (
    (32, re.compile(r"error: failed to create \S+: (.* already exists)"), r"Error from server (AlreadyExists): \1"),
    (32, re.compile(r"error: failed to create \S+: (.* is forbidden: )"), r"Error from server (Forbidden): \1"),
    (32, re.compile(r"error: failed to create \S+: (.* not found)"), r"Error from server (NotFound): \1"),
    (32, re.compile(r"error: failed to create \S+: (.* is invalid: )"), r"The \1"),
    (32, re.compile(r"(?<=request is invalid): the server rejected our request due to an error in our request"), ""),
    (32, re.compile(r"no name was specified"), "no name, label selector, or --all flag specified"),
    (34, re.compile(r'(?<=") ((?:force )?deleted) from \S+ namespace'), r" \1"),
)


@dataclass(frozen=True)
class Step:
    """One command and what it should show."""

    command: str
    shown: str


def steps(transcript: str) -> Iterator[Step]:
    """Split a transcript; what stands before the first command is an error of the test."""
    command: list[str] = []
    shown: list[str] = []
    for line in textwrap.dedent(transcript).strip("\n").splitlines():
        if line.startswith("$ "):
            if command:
                yield Step("\n".join(command), "\n".join(shown))
            command, shown = [line[2:]], []
        elif line.startswith(">") and command and not shown:
            command.append(line[2:])
        elif command:
            shown.append(line)
        else:
            raise ValueError(f"a transcript starts with a command, not with {line!r}")
    yield Step("\n".join(command), "\n".join(shown))


def normalised(text: str) -> str:
    """Put names in place of what differs from run to run."""
    for pattern, name in _NAMED:
        text = pattern.sub(name, text)
    return text.strip("\n")


def agrees(expected: str, got: str) -> bool:
    """Return True if the output of the terminal matches the transcript."""
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line.strip() == "..." else re.escape(line) + "\n" for line in expected.splitlines()
    )
    return re.fullmatch(pattern, got + "\n" if got else "") is not None


@dataclass(frozen=True)
class Terminal:
    """A shell in a directory of its own with the kubectl under test first on its path."""

    directory: Path
    environment: Mapping[str, str]
    minor: int
    """The kubectl is version 1.<minor>."""
    namespace: str = "default"

    def __call__(self, transcript: str) -> None:
        """Run a transcript; the first difference fails the test and shows both sides."""
        for step in steps(transcript):
            expected, got = self._expected(step.shown), self.run(step.command.replace("<ns>", self.namespace))
            if not agrees(expected, got):
                raise AssertionError(f"$ {step.command}\n--- expected\n{expected}\n--- got\n{got}\n---")

    def _expected(self, shown: str) -> str:
        shown = normalised(shown).replace(self.namespace, "<ns>")
        for since, new, old in OLDER:
            if self.minor < since:
                shown = new.sub(old, shown)
        return shown

    def run(self, command: str) -> str:
        """What one command shows, normalised, with its exit status when that is not 0."""
        done = self._run(command, stderr=subprocess.STDOUT)
        shown = normalised(done.stdout).replace(self.namespace, "<ns>")
        if done.returncode:
            shown = f"{shown}\n[{done.returncode}]".lstrip("\n")
        return shown

    def output(self, command: str) -> str:
        """The standard output of a command that must succeed, as it is."""
        done = self._run(command, stderr=subprocess.PIPE)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}[{done.returncode}]"
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        """Put a file into the terminal's directory."""
        path = self.directory / name
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def _run(self, command: str, *, stderr: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
