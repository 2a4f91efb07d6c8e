"""`kapi run MODULE:NAME`: run an operator that a module defines."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.cli.command import USAGE, Command, add_flag

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from kapi.cli.command import Parser
    from kapi.controller.manager import Manager

_RELOAD: Final = ("--reload",)


def _add_options(parser: Parser) -> None:
    from kapi.controller.program import add_options

    add_target(parser)
    add_flag(parser, *_RELOAD, help="restart when a file of the current directory or below it changes")
    add_options(parser)


def add_target(parser: Parser) -> None:
    """Add the argument that names the operator."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="MODULE:NAME",
        help="a function that sets a manager up, or a manager (default: that of the PROJECT file here)",
    )


def _run(arguments: argparse.Namespace) -> int:
    from kapi.cli.printer import complain

    try:
        arguments.target = arguments.target or project_target()
    except ValueError as error:
        complain(f"kapi run: {error}")
        return USAGE
    if arguments.reload:
        return asyncio.run(_run_reloading(sys.argv[1:]))
    return run_target(arguments)


async def _run_reloading(command_line: Sequence[str]) -> int:
    from kapi.cli.dev.files import ProjectFiles
    from kapi.cli.dev.program import Program, Reloader, stopped_by_signals
    from kapi.cli.printer import complain

    spellings = {spelling for name in _RELOAD for spelling in (name, f"{name}=true")}
    arguments = ["-m", "kapi.cli.dev.child", *(one for one in command_line if one not in spellings)]
    reloader = Reloader(
        lambda: Program.start(arguments),
        ProjectFiles(Path()),
        lambda text: complain(f"kapi run: {text}"),
    )
    with stopped_by_signals(reloader.stop):
        return await reloader.run()


def run_target(arguments: argparse.Namespace, ready: Callable[[Manager], None] | None = None) -> int:
    """Run what `arguments.target` names until it is stopped; returns the exit status.

    `ready` is called with the manager when it is set up.
    """
    from kapi.controller.manager import Manager
    from kapi.controller.program import execute, run_setup

    try:
        target = load(arguments.target)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        sys.stderr.write(f"kapi run: {error}\n")
        return USAGE
    if isinstance(target, Manager):
        if ready is not None:
            ready(target)
        return execute(target.run())
    module = arguments.target.partition(":")[0]
    return execute(run_setup(target, arguments, name=module.rpartition(".")[2], ready=ready))


def load(name: str) -> Any:
    """The object that `MODULE:NAME` names; modules of the current directory are found.

    Raises:
        ImportError, AttributeError, ValueError, TypeError: there is none, or it is neither a function nor a manager.
    """
    from kapi.controller.manager import Manager

    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(f"{name!r}: expected MODULE:NAME, such as operator:setup")
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = getattr(importlib.import_module(module), attribute)
    if not callable(found) and not isinstance(found, Manager):
        raise TypeError(f"{name}: expected a function that takes a Manager, or a Manager, and not {found!r}")
    return found


def project_target() -> str:
    """The function that sets up the manager of the project in the current directory.

    Raises:
        ValueError: there is no project, or its PROJECT file cannot be read.
    """
    from kapi.scaffold.project import ProjectError, read_project

    try:
        project = read_project(Path())
    except ProjectError as error:
        raise ValueError(f"name the operator, MODULE:NAME, or run this in a project: {error}") from None
    return f"{project.package}.manager:setup"


RUN: Final = Command("run", "Run an operator", _add_options, _run, "[MODULE:NAME] [OPTION...]")
