from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kapi.storage.interface import Draft
from kapi.storage.revisionslot import fill, pack


@given(st.binary(), st.binary(), st.integers(1, 2**62))
def test_a_packed_value_is_filled_as_if_the_revision_had_been_known(before, after, revision):
    assert fill(pack(Draft(before, after)), revision) == Draft(before, after).render(revision)
