"""`kapi generate`: definitions from classes, classes from definitions.

Only options are declared here; what does the work is imported when a command runs. Annotations are real objects in this
module, because typer reads them.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object

_FAILED: Final = 1
_DEFINITION: Final = "CustomResourceDefinition"

app = typer.Typer(
    name="generate",
    help="Write definitions of custom resources from Python classes, and classes from definitions.",
    no_args_is_help=True,
)


@app.command()
def crds(
    targets: Annotated[
        list[str], Argument(metavar="MODULE[:CLASS]...", help="A class, or a module for every kind in it.")
    ],
    output_dir: Annotated[
        Path | None, Option(metavar="DIR", help="Write a file for each definition there, instead of printing them.")
    ] = None,
) -> None:
    """Print the definitions of custom kinds; classes of one kind at several versions become one definition.

    Modules are looked for in the current directory first. A definition that a server would refuse is not printed.
    """
    _run(lambda: _write_definitions(targets, output_dir))


@app.command()
def types(
    files: Annotated[
        list[str], Argument(metavar="FILE...", help="Manifests with definitions, or - for standard input.")
    ],
    output: Annotated[
        Path | None, Option(metavar="FILE", help="Where to write the module, instead of printing it.")
    ] = None,
    version: Annotated[str, Option(metavar="VERSION", help="Of each definition, instead of the stored version.")] = "",
) -> None:
    """Print a Python module with classes for the kinds of some definitions. Objects of other kinds are passed over."""
    _run(lambda: _write_types(files, output, version))


def _run(work: "Callable[[], None]") -> None:
    from kapi.cli.printing import CommandError, complain

    try:
        work()
    except CommandError as error:
        for line in str(error).splitlines():
            complain(f"error: {line}")
        sys.exit(_FAILED)
    except OSError as error:
        complain(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error}")
        sys.exit(_FAILED)


def _write_definitions(targets: list[str], output_dir: Path | None) -> None:
    from kapi.cli.printing import CommandError, emit
    from kapi.codec import yaml
    from kapi.scaffold.definitions import BadDefinition, definitions_of
    from kapi.scaffold.loading import NotLoaded, load

    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        made = definitions_of([cls for target in targets for cls in load(target)])
    except (NotLoaded, BadDefinition) as error:
        raise CommandError(str(error)) from None
    finally:
        sys.path.remove(here)
    if output_dir is None:
        emit("---\n".join(yaml.encode(one).decode() for one in made))
        return
    output_dir.mkdir(parents=True, exist_ok=True)
    for one in made:
        path = output_dir / f"{one['metadata']['name']}.yaml"
        path.write_bytes(yaml.encode(one))
        emit(f"{path}\n")


def _write_types(files: list[str], output: Path | None, version: str) -> None:
    from kapi.cli import manifests
    from kapi.cli.printing import CommandError, emit
    from kapi.scaffold.models import NoTypes
    from kapi.scaffold.reading import NotReadable, read
    from kapi.scaffold.types import types_source

    found: list[Object] = []
    for manifest in manifests.read(files, recursive=False):
        if manifest.gvk.kind == _DEFINITION:
            try:
                found.append(read(manifest.obj))
            except NotReadable as error:
                raise CommandError(f"{manifest.source}: {error}") from None
    if not found:
        raise CommandError(f"no {_DEFINITION} in {', '.join(files)}")
    try:
        source = types_source(found, version)
    except NoTypes as error:
        raise CommandError(str(error)) from None
    if output is None:
        emit(source)
    else:
        output.write_text(source, encoding="utf-8")
