"""`kapi generate`: definitions from classes, classes from definitions, clients from either, roles from permissions.

The implementation is imported when a command runs.
"""

from __future__ import annotations

import sys
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.cli.command import Command, Group, Parser, add_flag

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.scaffold.project import Project
    from kapi.scaffold.writer import File

_FAILED: Final = 1
_DEFINITION: Final = "CustomResourceDefinition"
_OURS: Final = "Made by `kapi generate"
_MANIFESTS: Final = (".json", ".yaml", ".yml")
_CLASSES: Final = "a class, or a module for every kind in it; modules are looked up in the current directory first"


def _add_crds(parser: Parser) -> None:
    parser.add_argument(
        "targets", nargs="*", metavar="MODULE[:CLASS]", help=f"{_CLASSES} (default: those of the project in it)"
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="write a file for each definition there, instead of printing them",
    )


def _add_rbac(parser: Parser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        default="",
        metavar="MODULE:NAME",
        help="permissions, see kapi.controller.permissions (default: those of the project in the current directory)",
    )
    parser.add_argument(
        "--name", default="operator", metavar="NAME", help="of the role that is printed (default: operator)"
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="write nothing; compare with the requests of a test run, as recorded by pytest --kapi-requests=FILE, and"
        " fail if a permission is missing or was not used",
    )
    add_flag(parser, "--force", help="overwrite a file that was edited")


def _add_manifests(parser: Parser) -> None:
    add_flag(parser, "--check", help="write nothing; fail if a file is not current")
    add_flag(parser, "--force", help="overwrite files that were edited")


def _add_certificate(parser: Parser) -> None:
    parser.add_argument("--service", default="", metavar="NAME", help="the Service (default: that of the project)")
    parser.add_argument("--namespace", default="", metavar="NAME", help="of both (default: the project's)")
    parser.add_argument("--secret", default="", metavar="NAME", help="the Secret (default: named as the Service)")


def _add_types(parser: Parser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="manifests with definitions, or - for standard input")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the module there, instead of printing it")
    parser.add_argument(
        "--version", default="", metavar="VERSION", help="this version of each definition, instead of the stored one"
    )


def _add_client(parser: Parser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="MODULE[:CLASS]|FILE",
        help=f"{_CLASSES}; or manifests with definitions, or - for standard input",
    )
    parser.add_argument("--package", required=True, metavar="NAME", help="the name of the package")
    parser.add_argument(
        "--output-dir", type=Path, default=Path(), metavar="DIR", help="the folder to write the package to"
    )
    parser.add_argument(
        "--version",
        default="",
        metavar="VERSION",
        help="this version of each definition, instead of all that are served; not for classes",
    )


def _run(work: Callable[[], None]) -> int:
    from kapi.cli.printer import CommandError, complain

    try:
        work()
    except CommandError as error:
        for line in str(error).splitlines():
            complain(f"error: {line}")
        return _FAILED
    except OSError as error:
        complain(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error}")
        return _FAILED
    return 0


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


def _load(targets: list[str]) -> list[type[CustomResource]]:
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


def _definitions(files: list[str]) -> list[Object]:
    """Return the definitions in some files, converted to apiextensions.k8s.io/v1."""
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


def _own_classes(targets: list[str], package: str, version: str) -> list[type[CustomResource]]:
    from kapi.cli.printer import CommandError

    if version:
        raise CommandError("--version is for definitions; of classes, name those that are wanted")
    classes = _load(targets)
    for cls in classes:
        if cls.__module__.partition(".")[0] == package:
            raise CommandError(f"the package would hide the module of {cls.__module__}.{cls.__qualname__}")
    return classes


def _write_package(folder: Path, made: dict[str, str]) -> list[Path]:
    """Write the files of a package, or none of them if one of the files exists and was not written by this command."""
    from kapi.cli.printer import CommandError

    paths = {folder / name: text for name, text in sorted(made.items())}
    for path in paths:
        # The words may be on two lines.
        if path.exists() and _OURS not in " ".join(path.read_text(encoding="utf-8", errors="replace").split()):
            raise CommandError(f"{path} exists and was not made by this command: remove it, or choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
    return list(paths)


def _crds(arguments: Namespace) -> int:
    if not arguments.targets and arguments.output_dir is None:
        from kapi.cli.projectmanifests import definitions

        return _run(lambda: _write_project([definitions]))
    return _run(lambda: _write_definitions(arguments.targets, arguments.output_dir))


def _rbac(arguments: Namespace) -> int:
    from kapi.cli.projectmanifests import check_permissions, print_role, roles

    if arguments.check is not None:
        return _run(lambda: check_permissions(arguments.target, arguments.check))
    if arguments.target:
        return _run(lambda: print_role(arguments.target, arguments.name))
    return _run(lambda: _write_project([roles], force=arguments.force))


def _manifests(arguments: Namespace) -> int:
    from kapi.cli.projectmanifests import definitions, listings, roles

    makers = [listings, definitions, roles]
    return _run(lambda: _write_project(makers, force=arguments.force, check=arguments.check))


def _certificate(arguments: Namespace) -> int:
    from kapi.cli.projectmanifests import print_certificate

    return _run(lambda: print_certificate(arguments.service, arguments.namespace, arguments.secret))


def _write_project(
    makers: Sequence[Callable[[Path, Project], dict[str, File]]], *, force: bool = False, check: bool = False
) -> None:
    from kapi.cli.printer import emit
    from kapi.cli.projectmanifests import find_project, write_files

    root, project = find_project()
    for path in write_files(root, project, makers, force=force, check=check):
        emit(f"{path}\n")


def _types(arguments: Namespace) -> int:
    return _run(lambda: _write_types(arguments.files, arguments.output, arguments.version))


def _client(arguments: Namespace) -> int:
    return _run(lambda: _write_client(arguments.sources, arguments.package, arguments.output_dir, arguments.version))


GENERATE: Final = Group(
    "generate",
    "Write definitions from classes, classes from definitions, clients from either, and roles from permissions",
    (
        Command(
            "crds",
            "Print the definitions of custom kinds; classes of one kind at several versions become one definition",
            _add_crds,
            _crds,
            "[MODULE[:CLASS]...] [OPTION...]",
        ),
        Command(
            "rbac",
            "Write the role of an operator from the permissions that its code declares, or compare them with its tests",
            _add_rbac,
            _rbac,
            "[MODULE:NAME] [OPTION...]",
        ),
        Command(
            "manifests",
            "Write all generated manifests of the project in the current directory",
            _add_manifests,
            _manifests,
        ),
        Command(
            "certificate",
            "Print a Secret with a certificate for a webhook server, good for a year, and its authority",
            _add_certificate,
            _certificate,
        ),
        Command(
            "types",
            "Print a Python module with classes for the kinds of some definitions; other objects are skipped",
            _add_types,
            _types,
            "FILE... [OPTION...]",
        ),
        Command(
            "client",
            "Write a package with a typed clientset, listers and informers, and print the files written",
            _add_client,
            _client,
            "MODULE[:CLASS]...|FILE... --package NAME [OPTION...]",
        ),
    ),
)
