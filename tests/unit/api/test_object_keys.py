"""Keys: what they print, what they read, and whose they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.builtin.core_v1 import Pod
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.keys import ObjectKey

NAMES = st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True)


@given(st.one_of(st.just(""), NAMES), NAMES)
def test_key_is_read_back_as_it_was_printed(namespace, name):
    key = ObjectKey(namespace, name)
    assert ObjectKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a/b/c", "a//b"])
def test_text_that_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match="unexpected key format"):
        ObjectKey.parse(text)


def test_key_of_an_object_in_either_form():
    assert ObjectKey.of({"metadata": {"namespace": "n", "name": "a"}}) == ("n", "a")
    assert ObjectKey.of(Pod(metadata=ObjectMeta(namespace="n", name="a"))) == ("n", "a")
    assert ObjectKey.of({"metadata": {"name": "a"}}) == ObjectKey("", "a")
    assert ObjectKey.of(Pod()) == ObjectKey("", "")


def test_keys_sort_by_namespace_then_name():
    keys = [ObjectKey("b", "a"), ObjectKey("a", "b"), ObjectKey("", "z"), ObjectKey("a", "a")]
    assert [str(key) for key in sorted(keys)] == ["z", "a/a", "a/b", "b/a"]
