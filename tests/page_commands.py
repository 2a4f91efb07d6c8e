"""The commands of a page of the documentation, typed one after the other as its reader would type them.

A page has blocks: files to save (the file's name, in back quotes, is in the paragraph before), and `console` blocks, whose
format is that of `transcript`. What needs more than one process of a shell is done here: `export`, `cd`, `command &` and
`kill %N`. Objects change while controllers work, so a command that only reads is repeated until it shows what the page shows.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from transcript import agrees, normalised, steps

WAIT_SECONDS = 60
_BLOCK = re.compile(r"(?:`([\w./-]+)`[^`]*\n\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_READS = re.compile(r"(kubectl|kapi) get |cat |grep ")
_EXPORT = re.compile(r"export (\w+)=(.*)")
_CHANGED = "console"


@dataclass(frozen=True)
class Block:
    """A block of a page: `file` is the name to save it under, if it is one."""

    language: str
    text: str
    file: str = ""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language, text, "" if language == _CHANGED else name) for name, language, text in found]


@dataclass
class Shell:
    """A shell in a folder, with jobs in the background that are ended at the end of the `with` block."""

    folder: Path
    environment: dict[str, str]
    jobs: list[subprocess.Popen] = field(default_factory=list)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for job in reversed(self.jobs):
            self._end(job)

    def type(self, page: Path, until: str = "") -> int:
        """Type the commands of a page, and compare what they show; returns how many there were.

        `until` is the begin of the first command that is not typed.
        """
        count = 0
        for block in blocks(page):
            if block.language != _CHANGED:
                if block.file:
                    path = self.folder / block.file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(block.text, encoding="utf-8")
                continue
            for step in steps(block.text):
                if until and step.command.startswith(until):
                    return count
                count += 1
                self.step(step.command, step.shown)
        return count

    def step(self, command: str, shown: str) -> None:
        """One command, which must show this."""
        if exported := _EXPORT.fullmatch(command):
            self.environment[exported[1]] = os.path.expandvars(exported[2].replace("$PWD", str(self.folder)))
        elif command.startswith("cd "):
            self.folder = (self.folder / command[3:]).resolve()
        elif command.endswith(" &"):
            self.jobs.append(self._start(command[:-2]))
        elif command.startswith("kill %"):
            self._end(self.jobs[int(command[6:]) - 1])
        else:
            self._compare(command, normalised(shown))

    def _compare(self, command: str, expected: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not agrees(expected, got := self._run(command)):
            if not _READS.match(command) or time.monotonic() > deadline:
                raise AssertionError(f"$ {command}\n--- expected\n{expected}\n--- got\n{got}\n---\n{self._logs()}")
            time.sleep(0.1)

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        return normalised(done.stdout)

    def _start(self, command: str) -> subprocess.Popen:
        with (self.folder / f"job-{len(self.jobs) + 1}.log").open("wb") as log:
            return subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _end(self, job: subprocess.Popen) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGTERM)
        try:
            job.wait(WAIT_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()

    def _logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(self.folder.glob("job-*.log")))
