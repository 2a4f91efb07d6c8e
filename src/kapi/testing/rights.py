"""The record of the rights that managers needed in a test run: `pytest --kapi-requests=FILE`.

Each line of the file is one right, as JSON: verb, group, resource (with its sub-resource) and, where RBAC looks at it,
the name of the object. `kapi generate rbac --check FILE` compares it with what an operator declares. Processes that run
tests in parallel append to the same file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from kapi.testing.target import Target

VARIABLE: Final = "KAPI_TEST_REQUESTS"
"""The environment variable that names the file; unset for no record."""
MANAGER: Final = "manager"
"""The clients whose requests are recorded: those of `Environment.manager`."""
_CREATED: Final = 201


class _Right(NamedTuple):
    verb: str
    group: str
    resource: str
    name: str


class RightsRecord:
    """The rights that the requests of one environment needed."""

    def __init__(self) -> None:
        self._path = os.environ.get(VARIABLE, "")
        self._rights: set[_Right] = set()

    def add(self, user: str, target: Target, status: int) -> None:
        """Add what a request needed; refused requests count, too."""
        if not self._path or user != MANAGER:
            return
        # The authorizer does not see the name of an object that is created, because it is in the body.
        name = "" if target.verb == "create" else target.name
        self._rights.add(_Right(target.verb, target.group, target.kind, name))
        if target.verb == "patch" and status == _CREATED:  # an apply of a new object
            self._rights.add(_Right("create", target.group, target.kind, ""))

    def write(self) -> None:
        """Append the rights to the file."""
        if not self._rights:
            return
        lines = b"".join(msgspec.json.encode(right._asdict()) + b"\n" for right in sorted(self._rights))
        self._rights.clear()
        with Path(self._path).open("ab", buffering=0) as file:  # one write, so that processes do not mix their lines
            file.write(lines)
