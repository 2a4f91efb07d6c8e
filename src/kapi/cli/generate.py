"""`kapi generate`: definitions from classes, classes from definitions, clients from either.

Only options are declared here; what does the work is imported when a command runs. Annotations are real objects in this
module, because typer reads them.
"""

import sys
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object

_FAILED: Final = 1
_DEFINITION: Final = "CustomResourceDefinition"
_OURS: Final = "Made by `kapi generate"
_MANIFESTS: Final = (".json", ".yaml", ".yml")

app = typer.Typer(
    name="generate",
    help="Write definitions of custom resources from Python classes, classes from definitions, clients from either.",
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


@app.command()
def client(
    sources: Annotated[
        list[str],
        Argument(
            metavar="MODULE[:CLASS]...|FILE...",
            help="A class, or a module for every kind in it; or manifests with definitions, or - for standard input.",
        ),
    ],
    package: Annotated[str, Option(metavar="NAME", help="What the package is called.")],
    output_dir: Annotated[Path, Option(metavar="DIR", help="The folder the package is put into.")] = Path(),
    version: Annotated[
        str, Option(metavar="VERSION", help="Of each definition, instead of all that are served; not for classes.")
    ] = "",
) -> None:
    """Write a package with a typed clientset, listers and informers for some kinds, and print what was written.

    Of definitions the classes are written, too. Files that were not made by this command are not replaced.
    """
    _run(lambda: _write_client(sources, package, output_dir, version))


def _run(work: "Callable[[], None]") -> None:
    from kapi.cli.printer import CommandError, complain

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
    from kapi.cli.printer import CommandError, emit
    from kapi.codec import yaml
    from kapi.scaffold.definitions import BadDefinition, definitions_of

    try:
        made = definitions_of(_load(targets))
    except BadDefinition as error:
        raise CommandError(str(error)) from None
    if output_dir is None:
        emit("---\n".join(yaml.encode(one).decode() for one in made))
        return
    output_dir.mkdir(parents=True, exist_ok=True)
    for one in made:
        path = output_dir / f"{one['metadata']['name']}.yaml"
        path.write_bytes(yaml.encode(one))
        emit(f"{path}\n")


def _load(targets: list[str]) -> "list[type[CustomResource]]":
    """The classes that targets name; modules are looked for in the current directory first."""
    from kapi.cli.printer import CommandError
    from kapi.scaffold.loader import NotLoaded, load

    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return [cls for target in targets for cls in load(target)]
    except NotLoaded as error:
        raise CommandError(str(error)) from None
    finally:
        sys.path.remove(here)


def _write_types(files: list[str], output: Path | None, version: str) -> None:
    from kapi.cli.printer import CommandError, emit
    from kapi.scaffold.models import NoTypes
    from kapi.scaffold.types import types_source

    try:
        source = types_source(_definitions(files), version)
    except NoTypes as error:
        raise CommandError(str(error)) from None
    if output is None:
        emit(source)
    else:
        output.write_text(source, encoding="utf-8")


def _definitions(files: list[str]) -> "list[Object]":
    """The definitions in some files, in today's form."""
    from kapi.cli import manifests
    from kapi.cli.printer import CommandError
    from kapi.scaffold.definitions import NotReadable, read_definition

    found: list[Object] = []
    for manifest in manifests.read(files, recursive=False):
        if manifest.gvk.kind == _DEFINITION:
            try:
                found.append(read_definition(manifest.obj))
            except NotReadable as error:
                raise CommandError(f"{manifest.source}: {error}") from None
    if not found:
        raise CommandError(f"no {_DEFINITION} in {', '.join(files)}")
    return found


def _write_client(sources: list[str], package: str, output_dir: Path, version: str) -> None:
    from kapi.cli.printer import CommandError, emit
    from kapi.scaffold.clientset import package_of_classes, package_of_definitions
    from kapi.scaffold.clientset.kinds import NoClientset
    from kapi.scaffold.models import NoTypes

    if not package.isidentifier() or iskeyword(package):
        raise CommandError(f"{package!r} cannot be the name of a package")
    are_files = {_is_file(source) for source in sources}
    if len(are_files) > 1:
        raise CommandError("clients are made from classes or from files, not from both at once")
    try:
        if are_files == {True}:
            made = package_of_definitions(_definitions(sources), version)
        else:
            made = package_of_classes(_own_classes(sources, package, version))
    except (NoClientset, NoTypes) as error:
        raise CommandError(str(error)) from None
    for path in _write_package(output_dir / package, made):
        emit(f"{path}\n")


def _is_file(source: str) -> bool:
    return source == "-" or "/" in source or source.endswith(_MANIFESTS)


def _own_classes(targets: list[str], package: str, version: str) -> "list[type[CustomResource]]":
    from kapi.cli.printer import CommandError

    if version:
        raise CommandError("--version is for definitions; of classes, name those that are wanted")
    classes = _load(targets)
    for cls in classes:
        if cls.__module__.partition(".")[0] == package:
            raise CommandError(f"the package would hide the module of {cls.__module__}.{cls.__qualname__}")
    return classes


def _write_package(folder: Path, made: dict[str, str]) -> list[Path]:
    """Write the files of a package, or none of them if one is there that somebody else wrote."""
    from kapi.cli.printer import CommandError

    paths = {folder / name: text for name, text in sorted(made.items())}
    for path in paths:
        # The words may be on two lines.
        if path.exists() and _OURS not in " ".join(path.read_text(encoding="utf-8", errors="replace").split()):
            raise CommandError(f"{path} is there and was not made by this command: remove it, or choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
    return list(paths)
