"""The project of an operator: `kapi init`, `create api`, `create webhook`, `add controller` and `edit`.

The command lines of Operator SDK and kubebuilder are understood: `--repo`, `--resource=true`, `--controller=true`,
`add controller --api-version=GROUP/VERSION --kind=KIND`. Commands work on the project of the current directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.cli.command import USAGE, Command, Group, add_flag

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from kapi.cli.command import Parser
    from kapi.scaffold.project import Kind, Project
    from kapi.scaffold.writer import Outcome

_FAILED: Final = 1


def _add_force(parser: Parser) -> None:
    add_flag(parser, "--force", help="overwrite files that exist")


def _add_kind(parser: Parser) -> None:
    parser.add_argument(
        "--group", default="", metavar="GROUP", help="the API group; the domain of the project is added to it"
    )
    parser.add_argument("--version", required=True, metavar="VERSION", help="the version, such as v1 or v1beta1")
    parser.add_argument("--kind", required=True, metavar="KIND", help="the kind, in CamelCase")


def _add_init(parser: Parser) -> None:
    parser.add_argument("--domain", required=True, metavar="DOMAIN", help="the domain of API groups, as example.com")
    parser.add_argument(
        "--repo",
        default="",
        metavar="PATH",
        help="the repository, as github.com/example/vpc-operator: its last part is the name of the project",
    )
    parser.add_argument(
        "--name", default="", metavar="NAME", help="the name of the project (default: of --repo, or of the directory)"
    )
    parser.add_argument("--image", default="", metavar="IMAGE", help="the container image (default: NAME:latest)")
    _add_force(parser)


def _init(arguments: Namespace) -> int:
    def work() -> Iterable[str]:
        from kapi.scaffold.changes import init
        from kapi.scaffold.project import Names

        root = Path.cwd()
        names = Names(
            arguments.domain, repo=arguments.repo, name=arguments.name, folder=root.name, image=arguments.image
        )
        project, outcome = init(root, names, force=arguments.force)
        yield from _report(outcome)
        if not project.kinds:
            yield "Next: kapi create api --group GROUP --version v1 --kind KIND"

    return _run(work)


def _add_api(parser: Parser) -> None:
    _add_kind(parser)
    parser.add_argument("--plural", default="", metavar="NAME", help="the plural (default: made from the kind)")
    add_flag(parser, "--namespaced", help="objects belong to namespaces (default: true)", default=True)
    add_flag(parser, "--resource", help="write the class of the kind (default: true)", default=True)
    add_flag(parser, "--controller", help="write a controller (default: true)", default=True)
    _add_force(parser)


def _create_api(arguments: Namespace) -> int:
    def work() -> Iterable[str]:
        from kapi.scaffold.changes import add_controller, create_api
        from kapi.scaffold.project import ProjectError, read_project

        root = Path.cwd()
        if arguments.resource:
            project, kind, outcome = create_api(
                root,
                group=arguments.group,
                version=arguments.version,
                kind=arguments.kind,
                plural=arguments.plural,
                namespaced=arguments.namespaced,
                controller=arguments.controller,
                force=arguments.force,
            )
        elif arguments.controller:
            api_version = f"{read_project(root).full_group(arguments.group)}/{arguments.version}"
            project, kind, outcome = add_controller(root, api_version, arguments.kind, force=arguments.force)
        else:
            raise ProjectError("--resource=false --controller=false: there is nothing to write")
        yield from _report(outcome)
        yield from _finish(root, project)
        if outcome.written:
            yield _next(project, kind)

    return _run(work)


def _add_webhook(parser: Parser) -> None:
    _add_kind(parser)
    add_flag(parser, "--defaulting", help="a webhook that sets fields")
    add_flag(
        parser,
        "--programmatic-validation",
        "--validation",
        help="a webhook that validates",
        dest="validation",
    )
    add_flag(parser, "--conversion", help="a webhook that converts between the versions of the kind")
    _add_force(parser)


def _create_webhook(arguments: Namespace) -> int:
    def work() -> Iterable[str]:
        from kapi.scaffold.changes import create_webhook

        root = Path.cwd()
        project, kind, outcome = create_webhook(
            root,
            group=arguments.group,
            version=arguments.version,
            kind=arguments.kind,
            defaulting=arguments.defaulting,
            validation=arguments.validation,
            conversion=arguments.conversion,
            force=arguments.force,
        )
        yield from _report(outcome)
        yield from _finish(root, project)
        if outcome.written:
            yield f"Next: edit the functions in {project.package}/webhooks/{kind.lower}_*.py, then: make manifests test"
            yield "Before it is deployed: kapi generate certificate | kubectl apply -f -"

    return _run(work)


def _add_controller_options(parser: Parser) -> None:
    parser.add_argument("--api-version", required=True, metavar="GROUP/VERSION", help="as network.example.com/v1")
    parser.add_argument("--kind", required=True, metavar="KIND", help="a kind of the project")
    _add_force(parser)


def _add_controller(arguments: Namespace) -> int:
    def work() -> Iterable[str]:
        from kapi.scaffold.changes import add_controller

        root = Path.cwd()
        project, kind, outcome = add_controller(root, arguments.api_version, arguments.kind, force=arguments.force)
        yield from _report(outcome)
        yield from _finish(root, project)
        if outcome.written:
            yield _next(project, kind)

    return _run(work)


def _add_edit(parser: Parser) -> None:
    parser.add_argument("--image", metavar="IMAGE", help="the container image that config/ deploys")
    parser.add_argument(
        "--namespaces",
        metavar="NAME,...",
        help="the namespaces to watch, with rights in these alone; empty for all namespaces",
    )
    add_flag(
        parser,
        "--upgrade",
        help="write the files of this version of kapi, except those that were edited, which are listed",
    )
    _add_force(parser)


def _edit(arguments: Namespace) -> int:
    def work() -> Iterable[str]:
        from kapi.scaffold.changes import edit

        root = Path.cwd()
        names = arguments.namespaces
        namespaces = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
        project, outcome = edit(
            root, image=arguments.image, namespaces=namespaces, upgrade=arguments.upgrade, force=arguments.force
        )
        yield from _report(outcome)
        yield from _finish(root, project)

    return _run(work)


def _run(work: Callable[[], Iterable[str]]) -> int:
    """Print the lines of a command, or why it failed; returns the exit status."""
    from kapi.cli.printer import complain, emit
    from kapi.scaffold.project import BadName, ProjectError

    try:
        for line in work():
            emit(f"{line}\n")
    except ProjectError as error:
        complain(f"error: {error}")
        return USAGE if isinstance(error, BadName) else _FAILED
    except OSError as error:
        complain(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error}")
        return _FAILED
    return 0


def _report(outcome: Outcome) -> Iterable[str]:
    yield from outcome.written
    for path in outcome.kept:
        yield f"{path}: edited, left as it is"
    if not outcome.written:
        yield "Everything is there already."


def _finish(root: Path, project: Project) -> Iterable[str]:
    """Write the manifests that come from the code, or say how to do it where the code cannot be imported yet."""
    from kapi.cli.printer import CommandError
    from kapi.cli.projectmanifests import write_manifests

    try:
        yield from write_manifests(root, project)
    except (CommandError, ModuleNotFoundError) as error:
        yield f"The manifests are not written yet ({error}): make manifests"


def _next(project: Project, kind: Kind) -> str:
    files = f"{project.package}/api/{kind.module}.py"
    if kind.controller:
        files += f" and {project.package}/controllers/{kind.lower}_controller.py"
    return f"Next: edit {files}, then: make manifests test"


INIT: Final = Command("init", "Begin a project for an operator in this directory", _add_init, _init)
CREATE: Final = (
    Command("api", "Add a kind to the project: a class, a controller, tests and manifests", _add_api, _create_api),
    Command("webhook", "Add webhooks for a kind of the project", _add_webhook, _create_webhook),
)
ADD: Final = Group(
    "add",
    "Add to the project of an operator",
    (
        Command(
            "controller",
            "Add a controller for a kind of the project",
            _add_controller_options,
            _add_controller,
            "--api-version=GROUP/VERSION --kind=KIND [OPTION...]",
        ),
    ),
)
EDIT: Final = Command("edit", "Change options of the project, or upgrade its files", _add_edit, _edit)
