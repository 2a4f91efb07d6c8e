"""`python -m generate`: write the generated files of this source tree again, for developers."""

from __future__ import annotations

import argparse
import pathlib

from generate.build import generate


def main() -> None:
    """Regenerate when the inputs changed, or always with `--force`, and say which it was."""
    parser = argparse.ArgumentParser(prog="python -m generate", description=__doc__)
    parser.add_argument("--force", action="store_true", help="regenerate even when nothing changed")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent
    written = generate(root, force=arguments.force)
    print("generated" if written else "up to date")  # noqa: T201 - this is a command


if __name__ == "__main__":
    main()
