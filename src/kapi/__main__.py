"""`python -m kapi` is the `kapi` command."""

from kapi.cli.entry import main

if __name__ == "__main__":
    main()
