"""The file of `--token-auth-file`: one token per line, with the user it stands for.

token,user name,uid[,"group,another group"]
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.user import User

if TYPE_CHECKING:
    from pathlib import Path

MAX_SIZE: Final = 16 * 1024 * 1024

_log = structlog.get_logger("kapi.authentication")


def read_token_file(path: Path) -> dict[str, User]:
    """Return the users by their tokens; `ValueError` names the file and the line, and shows nothing of it."""
    data = path.read_bytes()
    if len(data) > MAX_SIZE:
        raise ValueError(f"{path}: larger than {MAX_SIZE} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: not UTF-8") from None
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    users: dict[str, User] = {}
    try:
        for row in rows:
            _add(users, row, f"{path}:{rows.line_num}")
    except csv.Error as error:
        raise ValueError(f"{path}:{rows.line_num}: {error}") from None
    return users


def _add(users: dict[str, User], row: list[str], where: str) -> None:
    if not row:
        return
    if len(row) < 3:
        raise ValueError(
            f"{where}: expected at least 3 columns (token, user name, user uid), found {len(row)}: "
            'token,user,uid,"group1,group2"'
        )
    token, name, uid, *groups = row
    if not token:
        _log.warning("an empty token is ignored", line=where)
        return
    if not name:
        raise ValueError(f"{where}: the user name is empty")
    if token in users:
        _log.warning("a token is in the file more than once; the last line counts", line=where)
    names = groups[0].split(",") if groups and groups[0] else []
    users[token] = User(name, tuple(names), uid)
