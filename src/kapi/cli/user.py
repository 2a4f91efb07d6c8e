"""`kapi user`: users with client certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.cli.command import Command, Group, reason

if TYPE_CHECKING:
    from argparse import Namespace

    from kapi.cli.command import Parser

_USAGE: Final = 2


def _add_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of the user")
    parser.add_argument(
        "--group", action="append", default=[], metavar="GROUP", help="a group of the user; can be repeated"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(".kapi"),
        metavar="DIR",
        help="the folder of the server's keys and database (default: .kapi)",
    )
    parser.add_argument(
        "--pki-dir",
        type=Path,
        metavar="DIR",
        help="the folder of the CA, if the server was started with --pki-dir (default: pki in the data folder)",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write the kubeconfig (default: NAME.kubeconfig)"
    )


def _add(arguments: Namespace) -> int:
    from kapi.controlplane.options import OptionError
    from kapi.controlplane.users import add_user

    name = arguments.name
    output: Path = arguments.output or Path(f"{name.replace('/', '_')}.kubeconfig")
    try:
        add_user(arguments.data_dir, name, arguments.group, output, pki_dir=arguments.pki_dir)
    except (OptionError, OSError, ValueError) as error:
        sys.stderr.write(f"kapi: {reason(error)}\n")
        return _USAGE
    sys.stdout.write(f"{output} written. Next:  kubectl --kubeconfig {output} auth whoami\n")
    return 0


USER: Final = Group(
    "user",
    "Issue client certificates to users",
    (
        Command(
            "add",
            "Write a kubeconfig with a client certificate that names a user and groups; role bindings give it rights",
            _add_options,
            _add,
            "NAME [--group GROUP]... [OPTION...]",
        ),
    ),
)
