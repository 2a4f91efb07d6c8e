"""Where the `kapi` command begins, also where only the library is installed: then it says what is missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command."""
    try:
        from kapi.cli.main import main as command
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "kapi":
            raise
        sys.exit(f"kapi: the command is not installed ({error.name} is missing): pip install 'kapi[server]'")
    command()
