import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.keys import ObjectKey
from kapi.informer.cached import Intake, decoder_of
from kapi.informer.indexer import NAMESPACE, OWNER_UID, Indexer, by_label, by_owner_uid

_intake = Intake(decoder_of(dict))


def cached(name, namespace="default", labels=None, owners=(), version=1):
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels or {},
        "resourceVersion": str(version),
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid} for uid in owners],
    }
    return _intake.cached(json.dumps({"metadata": metadata}).encode())


def names(found):
    return sorted(str(obj.key) for obj in found)


def test_objects_are_found_by_namespace_label_and_owner():
    indexer = Indexer({"app": by_label("app"), OWNER_UID: by_owner_uid})
    indexer.put(cached("a", labels={"app": "web"}, owners=("u", "v")))
    indexer.put(cached("b", "other", labels={"app": "web"}))
    indexer.put(cached("c", labels={"app": ""}))
    indexer.put(cached("d", ""))
    assert names(indexer.by_index(NAMESPACE, "default")) == ["default/a", "default/c"]
    assert names(indexer.by_index(NAMESPACE, "")) == ["d"]
    assert names(indexer.by_index("app", "web")) == ["default/a", "other/b"]
    assert names(indexer.by_index("app", "")) == ["default/c"]
    assert names(indexer.by_index(OWNER_UID, "v")) == ["default/a"]
    assert indexer.by_index("app", "nothing") == []
    assert sorted(indexer.index_values("app")) == ["", "web"]


def test_an_index_that_comes_late_has_what_is_there():
    indexer = Indexer()
    indexer.put(cached("a", labels={"app": "web"}))
    indexer.add_index("app", by_label("app"))
    assert names(indexer.by_index("app", "web")) == ["default/a"]


def test_two_indexes_cannot_have_one_name():
    with pytest.raises(ValueError, match="already"):
        Indexer({NAMESPACE: by_label("x")})


def test_an_index_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(KeyError, match=r"'nodes'.*namespace"):
        Indexer().by_index("nodes", "x")


def test_an_index_function_that_fails_leaves_its_object_out_of_that_index_only(caplog):
    def failing(obj):
        raise RuntimeError("no")

    indexer = Indexer({"bad": failing})
    indexer.put(cached("a"))
    assert names(indexer.by_index(NAMESPACE, "default")) == ["default/a"]
    assert indexer.index_values("bad") == []
    assert "default/a" in caplog.text


def test_removing_what_is_not_there_is_nothing():
    Indexer().remove(ObjectKey("", "a"))


_changes = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["x", "y"]),
        st.one_of(
            st.none(),
            st.tuples(
                st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("12")), st.sets(st.sampled_from("uv"))
            ),
        ),
    ),
    max_size=30,
)


@given(_changes)
def test_indexes_hold_exactly_what_a_search_of_all_objects_finds(changes):
    indexer = Indexer({"app": by_label("app"), OWNER_UID: by_owner_uid})
    model = {}
    for version, (name, namespace, state) in enumerate(changes):
        key = ObjectKey(namespace, name)
        if state is None:
            indexer.remove(key)
            model.pop(key, None)
        else:
            labels, owners = state
            model[key] = (labels, owners)
            indexer.put(cached(name, namespace, labels, sorted(owners), version))
    assert set(indexer.keys()) == set(model)
    assert len(indexer) == len(model)
    for namespace in "xy":
        assert {obj.key for obj in indexer.by_index(NAMESPACE, namespace)} == {
            key for key in model if key.namespace == namespace
        }
    for value in "12":
        assert {obj.key for obj in indexer.by_index("app", value)} == {
            key for key, (labels, _) in model.items() if labels.get("app") == value
        }
    for uid in "uv":
        assert {obj.key for obj in indexer.by_index(OWNER_UID, uid)} == {
            key for key, (_, owners) in model.items() if uid in owners
        }
    assert set(indexer.index_values(NAMESPACE)) == {key.namespace for key in model}
