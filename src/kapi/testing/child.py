"""The `kapi` command as a child of a test process: it ends when its parent does, however that ends.

Run as `python -m kapi.testing.child up …`, with a pipe as standard input; see `kapi.base.parent`.
"""

from __future__ import annotations

import runpy

from kapi.base.parent import end_with_parent


def main() -> None:
    """Run a `kapi` command, and exit."""
    end_with_parent()
    # Not by an import: the command line is above this package.
    runpy.run_module("kapi", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
