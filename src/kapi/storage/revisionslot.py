"""Values whose revision is filled in on read, for stores that learn a commit's revision only from its answer.

etcd allocates the revision of a transaction itself, so a value cannot be written with its own revision in it. It is
packed without it, preceded by the place of the slot, and filled on every read with the revision the store returns
with the value (`mod_revision`). Finding the slot by a search for `"resourceVersion":""` would need no prefix, but ties
the store to the encoding of objects. Pure functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapi.storage.interface import Draft

_PLACE_BYTES = 4


def pack(draft: Draft) -> bytes:
    """The bytes to store: the length of what precedes the slot, and the value without its revision."""
    return b"%b%b%b" % (len(draft.before).to_bytes(_PLACE_BYTES), draft.before, draft.after)


def fill(packed: bytes, revision: int) -> bytes:
    """The value with its revision in its slot: `fill(pack(draft), revision) == draft.render(revision)`."""
    slot = _PLACE_BYTES + int.from_bytes(packed[:_PLACE_BYTES])
    return b"%b%d%b" % (packed[_PLACE_BYTES:slot], revision, packed[slot:])
