"""`kapi envtest-assets`: executables by the names that envtest of controller-runtime looks for.

    export KUBEBUILDER_ASSETS=$(kapi envtest-assets)
    go test ./...

The executables are small scripts that run the Kapi of this Python. They stay valid while that Python and its Kapi do;
written again they are the same.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.cli.command import Command
from kapi.cli.kubeapiserver import help_text

if TYPE_CHECKING:
    import argparse

    from kapi.cli.command import Parser

_HELP: Final = """\
#!/bin/sh
# Written by `kapi envtest-assets`.
for argument; do
    if [ "$argument" = --help ]; then
        cat <<'END'
{help}END
        exit 0
    fi
done
exec {python} -m {module} "$@"
"""

_KUBECTL: Final = """\
#!/bin/sh
# Written by `kapi envtest-assets`: the kubectl that is installed, else Kapi's own.
# KAPI_KUBECTL keeps two such scripts on one PATH from calling each other.
if [ -z "$KAPI_KUBECTL" ]; then
    export KAPI_KUBECTL=1
    IFS=:
    for folder in $PATH; do
        if [ -f "$folder/kubectl" ] && [ -x "$folder/kubectl" ] && ! [ "$folder/kubectl" -ef "$0" ]; then
            exec "$folder/kubectl" "$@"
        fi
    done
fi
exec {python} -m kapi "$@"
"""


def scripts() -> dict[str, str]:
    """The executables, by name."""
    # The help is in the script: envtest reads it before each start.
    python = shlex.quote(sys.executable)
    etcd = "Kapi in the place of etcd.\n\n      --data-dir\n      --listen-client-urls\n"
    return {
        "kube-apiserver": _HELP.format(help=help_text(), python=python, module="kapi.cli.kubeapiserver"),
        "etcd": _HELP.format(help=etcd, python=python, module="kapi.cli.etcdstandin"),
        "kubectl": _KUBECTL.format(python=python),
    }


def default_folder() -> Path:
    """The folder for those who name none; one for each Python, which the scripts call."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kapi" / "envtest-assets" / Path(sys.prefix).as_posix().strip("/").replace("/", "-")


def write(folder: Path) -> None:
    """Write the executables. Each is put in place in one step, as suites may be starting the one there is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in scripts().items():
        new = folder / f".{name}.{os.getpid()}"
        new.write_text(text)
        new.chmod(0o755)
        new.replace(folder / name)


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR", help="where (default: a folder in ~/.cache)")


def _run(arguments: argparse.Namespace) -> int:
    folder = (arguments.folder or default_folder()).absolute()
    try:
        write(folder)
    except OSError as error:
        sys.stderr.write(f"kapi: {error.filename}: {error.strerror}; choose another folder: kapi envtest-assets DIR\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


ENVTEST_ASSETS: Final = Command(
    "envtest-assets",
    "Write kube-apiserver, etcd and kubectl for envtest, and print their folder",
    _add_options,
    _run,
    "[DIR]",
)
