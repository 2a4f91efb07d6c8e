"""The entry point of the `kapi` program and of `python -m kapi`.

The program is part of the base installation; commands that need more say what is missing.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process, and exit."""
    from kapi.cli.main import main as program

    try:
        program()
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.partition(".")[0] == "kapi":
            raise
        command = " ".join(["kapi", *sys.argv[1:2]])
        sys.exit(f"{command} needs packages that are not installed ({name} is missing): pip install 'kapi[server]'")
