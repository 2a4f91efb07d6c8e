"""Validation of a commit's operations, shared by the backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.storage.interface import MAX_OPERATIONS, Check, Delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.storage.interface import Operation


def validate_operations(operations: Sequence[Operation]) -> None:
    """Raise for a commit that no store may accept, before anything of it is looked at.

    A UnicodeEncodeError (a key that is not text) is a ValueError too.
    """
    if len(operations) > MAX_OPERATIONS:
        raise ValueError(f"a commit has at most {MAX_OPERATIONS} operations, not {len(operations)}")
    writes = 0
    for operation in operations:
        if not operation.key.isascii():
            operation.key.encode()
        if isinstance(operation, Delete) and operation.expected <= 0:
            raise ValueError("delete needs the revision the key is at; 0 means absent")
        writes += not isinstance(operation, Check)
    if not writes:
        raise ValueError("a commit writes at least one key")
    if len(operations) > 1 and len({operation.key for operation in operations}) != len(operations):
        raise ValueError("a key occurs once in a commit")
