"""Commands of the `kapi` program, and how their command lines are parsed.

Options look and work as kubectl's do: `-o wide`, `-o=wide`, `-owide` and `--output=wide` mean the same, flags take
`=true` and `=false`, options and arguments may be mixed, and options of the connection may come before the command.
argparse does most of that, needs nothing installed, and costs a fraction of the import time of typer or click.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USAGE: Final = 2
"""The exit status of a command line that cannot be parsed."""


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, whose errors are one line and name the way to the help."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}".rstrip(),
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=36),
        )

    def error(self, message: str) -> Any:
        """Print one line to standard error and exit with 2."""
        # Only flags take no value of their own choice, see add_flag.
        message = message.replace("ignored explicit argument", "expected true or false, not")
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Flag(argparse.Action):
    """Sets a boolean: `--wait` and `--wait=true` to True, `--wait=false` to False."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, not (option or "").endswith("=false"))


def add_flag(parser: argparse._ActionsContainer, *names: str, help: str, default: Any = False, dest: str = "") -> None:  # noqa: A002 - argparse's name
    """Add a boolean option that also takes `=true` and `=false`."""
    # An option string may contain "="; argparse looks for the whole argument before it splits it.
    spellings = [f"{name}={value}" for name in names for value in ("true", "false")]
    target = dest or names[0].removeprefix("--").replace("-", "_")
    action = parser.add_argument(*names, *spellings, action=_Flag, nargs=0, default=default, dest=target, help=help)
    action.option_strings = list(names)  # what the help shows


def at_least(minimum: float) -> Callable[[str], float]:
    """A type of option values: numbers that are not smaller than `minimum`."""

    def number(text: str) -> float:
        value = float(text)
        if not value >= minimum:
            raise argparse.ArgumentTypeError(f"{text}: expected at least {minimum:g}")
        return value

    return number


def boolean(text: str) -> bool:
    """A type of option values: true or false."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text}: expected true or false")
    return text == "true"


def whole_number(text: str) -> int:
    """A type of option values: whole numbers from 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number")
    return int(text)


def duration(text: str) -> float:
    """A type of option values: durations as Go writes them, such as 1m30s, in seconds."""
    from kapi.api.go.durations import SECOND, parse_duration

    try:
        seconds = parse_duration(text) / SECOND
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; expected a duration such as 10s") from None
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected a duration that is not negative, such as 10s")
    return seconds


def reason(error: Exception) -> str:
    """An error in one line; one of the system by its file and its words, without Python's number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `add_options` declares what it takes, `run` does it and returns the exit status.

    `connects` is true for commands that talk to a server and take the options of the connection. `subcommands` are run
    instead when the first argument names one of them, as in `kapi create api`.
    """

    name: str
    summary: str
    add_options: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    usage: str = "[OPTION...]"
    connects: bool = False
    subcommands: Sequence[Command] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A command that consists of commands, such as `kapi generate`."""

    name: str
    summary: str
    commands: Sequence[Command]


def command_list(commands: Sequence[Command | Group]) -> str:
    """The commands with their summaries, a line each."""
    width = max(len(command.name) for command in commands) + 3
    return "\n".join(f"  {command.name:<{width}}{command.summary}" for command in commands)


def find(commands: Sequence[Command | Group], name: str, parser: Parser) -> Command | Group:
    """Return the command of a name; a name that there is not is an error of the command line."""
    for command in commands:
        if command.name == name:
            return command
    # `error` does not return.
    return parser.error(f'unknown command "{name}"')  # type: ignore[no-any-return]
