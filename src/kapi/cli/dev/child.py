"""The `kapi` command as a child process: it ends when its parent does. Run as `python -m kapi.cli.dev.child run …`."""

from __future__ import annotations

from kapi.base.parent import end_with_parent
from kapi.cli.entry import main

if __name__ == "__main__":
    end_with_parent()
    main()
