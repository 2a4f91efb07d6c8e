"""The program of the operator: `vpc`, or `python -m vpc`."""

import kapi

from vpc.manager import setup


def main() -> None:
    """Run the operator until SIGTERM or SIGINT."""
    kapi.run(setup)


if __name__ == "__main__":
    main()
