"""The custom kinds of the wire tests, from tests/wire/definitions, on a server for the length of a block."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transcript import Terminal

DEFINITIONS = Path(__file__).parent / "definitions"
SECONDS = 30


@contextmanager
def defined(kubectl: Path, kubeconfig: Path, file: str, published: str) -> Iterator[None]:
    """A definition that is served inside the block and gone, with all its objects, after it.

    `published` is a path that answers once the definition is known everywhere. Here that is from the first moment;
    other control planes that the sessions are checked against take some seconds.
    """

    def run(*arguments: str, check: bool = True) -> bool:
        command = [str(kubectl), "--kubeconfig", str(kubeconfig), *arguments]
        return subprocess.run(command, stdout=subprocess.DEVNULL, timeout=SECONDS, check=check).returncode == 0

    path = str(DEFINITIONS / file)
    run("create", "-f", path)
    try:
        run("wait", "--for=condition=Established", "-f", path)
        give_up = time.monotonic() + SECONDS
        while not run("get", "--raw", published, check=False):
            assert time.monotonic() < give_up, f"{published} is never published"
            time.sleep(0.5)
        yield
    finally:
        run("delete", "-f", path)


@contextmanager
def meanwhile(terminal: Terminal, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command during the block; it must exit by itself with status 0, before or soon after the block's end."""
    process = subprocess.Popen(
        command, cwd=terminal.directory, env=dict(terminal.environment), stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
