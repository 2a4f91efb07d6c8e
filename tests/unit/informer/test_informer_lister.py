import json

import pytest

from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.keys import ObjectKey
from kapi.api.selectors import LabelSelector, SelectorError
from kapi.informer.cached import Intake, decoder_of
from kapi.informer.indexer import Indexer, by_label
from kapi.informer.lister import Lister


@pytest.fixture
def lister():
    intake, indexer = Intake(decoder_of(ConfigMap)), Indexer({"app": by_label("app")})
    for namespace, name, labels in (
        ("x", "a", {"app": "web", "tier": "front"}),
        ("x", "b", {"app": "db"}),
        ("y", "a", {"app": "web"}),
        ("y", "c", {}),
    ):
        metadata = {"namespace": namespace, "name": name, "labels": labels}
        indexer.put(intake.cached(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).encode()))
    return Lister(indexer)


def keys(objects):
    return [f"{obj.metadata.namespace}/{obj.metadata.name}" for obj in objects]


def test_gets_one_by_name_and_namespace(lister):
    assert isinstance(lister.get("a", "y"), ConfigMap)
    assert keys([lister.get("a", "y"), lister.by_key(ObjectKey("x", "b"))]) == ["y/a", "x/b"]
    assert lister.get("a") is None
    assert lister.by_key(ObjectKey("x", "c")) is None


def test_what_is_handed_out_is_the_callers_own(lister):
    lister.get("a", "x").metadata.labels["app"] = "changed"
    assert lister.get("a", "x").metadata.labels["app"] == "web"


@pytest.mark.parametrize(
    "labels, expected",
    [
        (None, ["x/a", "x/b", "y/a", "y/c"]),
        ("", ["x/a", "x/b", "y/a", "y/c"]),
        ("app=web", ["x/a", "y/a"]),
        ("app=web,tier=front", ["x/a"]),
        ("app!=web", ["x/b", "y/c"]),
        ("app in (web,db),!tier", ["x/b", "y/a"]),
        ("app notin (web)", ["x/b", "y/c"]),
        ({"app": "web"}, ["x/a", "y/a"]),
        (LabelSelector.parse("!app"), ["y/c"]),
    ],
    ids=str,
)
def test_lists_by_labels(lister, labels, expected):
    assert keys(lister.list(labels=labels)) == expected


def test_lists_by_namespace_and_labels(lister):
    assert keys(lister.list(namespace="x")) == ["x/a", "x/b"]
    assert keys(lister.list(namespace="y", labels="app")) == ["y/a"]
    assert lister.list(namespace="nowhere") == []


def test_lists_by_index(lister):
    assert keys(lister.by_index("app", "db")) == ["x/b"]


def test_a_selector_that_is_none_is_refused(lister):
    with pytest.raises(SelectorError):
        lister.list(labels="a in (")


def test_cached_answers_without_decoding(lister):
    assert [str(obj.key) for obj in lister.cached.list(labels="app=web")] == ["x/a", "y/a"]
    assert lister.cached.get("a", "x") is lister.cached.by_key(ObjectKey("x", "a"))
    assert [str(obj.key) for obj in lister.cached.by_index("app", "db")] == ["x/b"]
    assert len(lister) == len(lister.cached) == 4
