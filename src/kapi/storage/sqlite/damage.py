"""Damage to a store: what is wrong, in which file, and where.

Every check of the SQLite store reports what it finds as `Damage`: the checks at the start, the scrub, and the commands
`kapi store check` and `kapi store repair`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageDamaged, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SHOWN = 10


class Damage(NamedTuple):
    """One place where a store is not what was written."""

    file: str
    """The name of the file in the data directory."""
    problem: str
    key: str = ""
    position: int = 0
    """The row (`history.position`), if the damage is in one."""
    offset: int = -1
    """The byte in the file where the damaged part begins; -1 when that is not known."""

    def __str__(self) -> str:
        where = [self.file]
        if self.offset >= 0:
            where.append(f"offset {self.offset}")
        if self.position:
            where.append(f"row {self.position}")
        if self.key:
            where.append(f"key {self.key}")
        return f"{', '.join(where)}: {self.problem}"


class RowDamaged(StorageDamaged):
    """A row that was read does not match its checksum."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(str(damage))
        self.damage = damage


class StoreDamaged(StorageUnavailable):
    """The store is not opened because it is damaged; `damages` has each place."""

    def __init__(self, directory: Path, damages: Sequence[Damage]) -> None:
        self.damages = list(damages)
        lines = [str(damage) for damage in self.damages[:_SHOWN]]
        if len(self.damages) > _SHOWN:
            lines.append(f"and {len(self.damages) - _SHOWN} more")
        super().__init__(
            f"the store in {directory} is damaged and is not served:\n  "
            + "\n  ".join(lines)
            + f"\nnothing was changed. See all of it with: kapi store check {directory}; "
            f"repair it, without loss if that is possible, with: kapi store repair {directory}; or restore a backup"
        )
