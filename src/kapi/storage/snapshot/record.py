"""What a snapshot consists of: a header, and a record for each key.

A record has its value without its revision (`Draft`), as etcd stores it: another store may give the value another
revision. A value that a store returns has its revision filled in, so the slot has to be found again. In the values
that Kapi writes it is certain where it is: JSON has it at the first `resourceVersion`, before anything that a user can
nest, and an encrypted value has it at its end. Pure functions.
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.storage.encryption.prefix import PREFIX
from kapi.storage.interface import Draft, StorageDamaged

_SLOT = b'"resourceVersion":"'


class Header(NamedTuple):
    """What a snapshot is of."""

    revision: int
    """The revision of the store when the snapshot was taken; no record has a later one."""
    store: str
    """Which store it was, for people who read it: the identity in `kapi.mark`, or the endpoints of etcd."""


class Record(NamedTuple):
    """The latest version of a key."""

    key: str
    revision: int
    draft: Draft


def record_of(key: str, value: bytes, revision: int) -> Record:
    """The record of a value that a store returned; `StorageDamaged` if the value does not have its own revision."""
    number = b"%d" % revision
    if value.startswith(PREFIX):
        if value.endswith(number):
            return Record(key, revision, Draft(value.removesuffix(number), b""))
    else:
        found = value.find(_SLOT)
        at = found + len(_SLOT)
        if found >= 0 and value.startswith(number + b'"', at):
            return Record(key, revision, Draft(value[:at], value[at + len(number) :]))
    raise StorageDamaged(f"{key}: the value does not hold its own revision, {revision}")
