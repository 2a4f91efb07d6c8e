"""The depth of documents, measured on their bytes, and the cost of comparing deep ones."""

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from kapi.api.depth import nests_deeper
from kapi.api.ownership.merge import compare
from kapi.api.ownership.shape import DEDUCED

documents = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\a', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
    max_leaves=30,
)


def depth(value):
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(documents, st.integers(0, 14))
def test_a_document_nests_deeper_than_the_levels_it_has(document, levels):
    assert nests_deeper(json.dumps(document).encode(), levels) is (depth(document) > levels)


@given(st.text("[]{}", max_size=60), st.integers(0, 12))
def test_brackets_that_do_not_match_are_counted_alike(text, levels):
    height = deepest = 0
    for bracket in text:
        height += 1 if bracket in "[{" else -1
        deepest = max(deepest, height)
    assert nests_deeper(text.encode(), levels) is (deepest > levels)


def nested(levels, leaf):
    for _ in range(levels):
        leaf = {"n": leaf}
    return leaf


def test_a_change_in_a_large_value_is_looked_for_a_few_times_however_deep_it_is():
    def taken(levels):
        old, new = (nested(levels, [0] * 50_000 + [last]) for last in (1, 2))
        measured = []
        for _ in range(5):
            start = time.process_time()
            assert compare(DEDUCED, old, new).modified
            measured.append(time.process_time() - start)
        return min(measured)

    assert taken(200) < taken(15) * 5
