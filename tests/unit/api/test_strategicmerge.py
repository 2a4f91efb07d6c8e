import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.patch.mergepatch import merge
from kapi.api.patch.strategicmerge import MergeNode, PatchContentError, PatchFormatError, PatchInternalError, apply


@dataclass
class Node:
    strategies: tuple[str, ...] = ()
    merge_key: str | None = None
    items: MergeNode | None = None
    fields: dict[str, "Node"] = field(default_factory=dict)

    def child(self, name):
        return self.fields.get(name)


def keyed(key, *strategies, **fields):
    return Node(("merge", *strategies), key, Node(fields=fields))


CONTAINER = {"env": keyed("name"), "ports": keyed("containerPort"), "args": Node(), "resources": Node()}
POD = Node(
    fields={
        "metadata": Node(fields={"finalizers": Node(("merge",)), "labels": Node(), "ownerReferences": keyed("uid")}),
        "spec": Node(
            fields={
                "containers": keyed("name", **CONTAINER),
                "volumes": keyed("name", "retainKeys"),
                "tolerations": Node(),
                "strategy": Node(("retainKeys",)),
                "selector": Node(("replace",)),
                "broken": Node(("merge", "replace")),
                "unkeyed": Node(("merge",)),
            }
        ),
    }
)


def spec(doc, patch):
    return apply({"spec": doc}, {"spec": patch}, POD)["spec"]


def names_of(items):
    return [item["name"] for item in items]


STORED = {
    "containers": [
        {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "proxy", "image": "proxy:1", "ports": [{"containerPort": 80, "protocol": "TCP"}], "args": ["-v"]},
    ],
    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "logs", "emptyDir": {}}],
    "tolerations": [{"key": "a"}],
}


# -- objects ----------------------------------------------------------------------------------------------------------


def test_objects_merge_and_null_removes():
    doc = {"metadata": {"labels": {"a": "1", "b": "2"}}, "kind": "Pod"}
    assert apply(doc, {"metadata": {"labels": {"a": None, "c": "3"}}}, POD) == {
        "metadata": {"labels": {"b": "2", "c": "3"}},
        "kind": "Pod",
    }


def test_nulls_that_match_nothing_are_dropped_at_any_depth():
    assert apply({}, {"a": None, "b": {"c": None, "d": [{"e": None}]}}, POD) == {"b": {"d": [{}]}}


def test_an_object_is_replaced_by_directive():
    assert spec({"strategy": {"type": "A", "x": 1}}, {"strategy": {"$patch": "replace", "type": "B"}}) == {
        "strategy": {"type": "B"}
    }


def test_an_object_is_emptied_by_directive():
    assert spec({"strategy": {"type": "A"}}, {"strategy": {"$patch": "delete"}}) == {"strategy": {}}


def test_directives_that_meet_nothing_vanish():
    patch = {"strategy": {"$patch": "delete"}, "volumes": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}
    assert spec({}, patch) == {"volumes": [{"name": "b"}]}


@pytest.mark.parametrize("directive", ["merge", "frob"])
def test_unknown_directives_are_internal_errors_that_print_the_map(directive):
    with pytest.raises(PatchInternalError) as caught:
        apply({}, {"$patch": directive, "b": [1, "x"], "a": {"c": None}}, POD)
    assert str(caught.value) == (
        f"unknown patch type: {directive} in map: map[$patch:{directive} a:map[c:<nil>] b:[1 x]]"
    )


def test_a_schema_may_ask_for_replacement_of_objects():
    assert spec({"selector": {"a": "1"}}, {"selector": {"b": "2"}}) == {"selector": {"b": "2"}}


def test_contradictory_strategies_are_refused():
    with pytest.raises(PatchInternalError, match=r"^unexpected patch strategy: \[merge replace\]$"):
        spec({"broken": {"a": 1}}, {"broken": {"a": 2}})


def test_values_of_another_type_replace():
    assert spec({"strategy": {"type": "A"}}, {"strategy": [1]}) == {"strategy": [1]}
    assert spec({"tolerations": [1]}, {"tolerations": {"a": None, "b": 1}}) == {"tolerations": {"b": 1}}


def test_without_a_schema_lists_are_replaced():
    assert apply({"a": {"b": [1], "c": 1}}, {"a": {"b": [2]}}, None) == {"a": {"b": [2], "c": 1}}


# -- retained keys ----------------------------------------------------------------------------------------------------


def test_retained_keys_clear_the_others():
    doc = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert spec(doc, patch) == {"strategy": {"type": "Recreate"}}


def test_retained_keys_work_in_list_items():
    patch = {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "data", "hostPath": {"path": "/d"}}]}
    assert spec(STORED, patch)["volumes"] == [
        {"name": "data", "hostPath": {"path": "/d"}},
        {"name": "logs", "emptyDir": {}},
    ]


@pytest.mark.parametrize("patch", [{"$retainKeys": "type"}, {"$retainKeys": [1]}, {"$retainKeys": ["x"], "type": "A"}])
def test_what_the_patch_sets_must_be_retained(patch):
    with pytest.raises(PatchFormatError, match=r"^invalid patch format of retainKeys$"):
        spec({"strategy": {"type": "A"}}, {"strategy": patch})


def test_a_null_need_not_be_retained():
    assert spec({"strategy": {"type": "A", "x": 1}}, {"strategy": {"$retainKeys": ["type"], "x": None}}) == {
        "strategy": {"type": "A"}
    }


# -- lists of objects -------------------------------------------------------------------------------------------------


def test_containers_merge_by_name_and_their_env_likewise():
    patch = {
        "containers": [
            {"name": "web", "image": "web:2", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}
        ]
    }
    web = spec(STORED, patch)["containers"][0]
    assert web["image"] == "web:2"
    assert web["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]


def test_ports_merge_by_number_and_numbers_are_no_strings():
    patch = {
        "containers": [{"name": "proxy", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": "80"}]}]
    }
    (_, proxy) = spec(STORED, patch)["containers"]
    assert proxy["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": "80"}]


def test_lists_without_a_strategy_are_replaced():
    patched = spec(STORED, {"tolerations": [{"key": "b"}], "containers": [{"name": "proxy", "args": ["-q", "-q"]}]})
    assert patched["tolerations"] == [{"key": "b"}]
    assert patched["containers"][1]["args"] == ["-q", "-q"]


def test_new_items_come_first_and_stored_ones_keep_their_order():
    assert names_of(spec(STORED, {"containers": [{"name": "new"}]})["containers"]) == ["new", "web", "proxy"]
    patch = {"containers": [{"name": "proxy"}, {"name": "new"}]}
    assert names_of(spec(STORED, patch)["containers"]) == ["web", "proxy", "new"]


def test_items_are_deleted_by_directive():
    assert names_of(spec(STORED, {"containers": [{"name": "web", "$patch": "delete"}]})["containers"]) == ["proxy"]
    assert spec(STORED, {"containers": [{"name": "none", "$patch": "delete"}]}) == STORED


def test_a_list_is_replaced_by_directive():
    patch = {"containers": [{"$patch": "replace"}, {"name": "only"}]}
    assert spec(STORED, patch)["containers"] == [{"name": "only"}]


def test_merging_a_list_cannot_be_asked_for():
    with pytest.raises(PatchInternalError, match=r"^merging lists cannot yet be specified in the patch$"):
        spec(STORED, {"containers": [{"name": "web", "$patch": "merge"}]})


def test_unknown_directives_in_items_are_internal_errors():
    with pytest.raises(
        PatchInternalError, match=r"^unknown patch type: %!s\(int64=5\) in map: map\[\$patch:5 name:web\]$"
    ):
        spec(STORED, {"containers": [{"name": "web", "$patch": 5}]})


@pytest.mark.parametrize("item", [{"image": "x"}, {"image": "x", "$patch": "delete"}])
def test_items_need_their_merge_key(item):
    with pytest.raises(PatchInternalError) as caught:
        spec(STORED, {"containers": [item]})
    shown = " ".join(f"{key}:{item[key]}" for key in sorted(item))
    assert str(caught.value) == f"map: map[{shown}] does not contain declared merge key: name"


def test_stored_items_need_it_too():
    with pytest.raises(PatchInternalError, match=r"^map: map\[image:x\] does not contain declared merge key: name$"):
        spec({"containers": [{"image": "x"}]}, {"containers": [{"name": "a"}]})


def test_mixed_lists_cannot_merge():
    with pytest.raises(PatchInternalError) as caught:
        spec(STORED, {"volumes": ["x"]})
    assert str(caught.value) == (
        "list element types are not identical: [[map[emptyDir:map[] name:data] map[emptyDir:map[] name:logs]] [x]]"
    )


def test_lists_of_lists_cannot_merge():
    with pytest.raises(PatchContentError, match=r"^lists of lists are not supported$"):
        spec({"volumes": []}, {"volumes": [[1]]})


def test_objects_cannot_merge_without_a_key():
    with pytest.raises(PatchInternalError, match=r"^cannot merge lists without merge key for struct$"):
        spec({"unkeyed": [{"a": 1}]}, {"unkeyed": [{"a": 2}]})


# -- lists of scalars -------------------------------------------------------------------------------------------------


def finalizers(stored, **patch):
    return apply({"metadata": {"finalizers": stored}}, {"metadata": patch}, POD)["metadata"]["finalizers"]


def test_finalizers_are_added_not_replaced():
    assert finalizers(["a", "b"], finalizers=["c", "a"]) == ["c", "a", "b"]


def test_finalizers_are_deleted_by_directive():
    assert finalizers(["a", "b", "c"], **{"$deleteFromPrimitiveList/finalizers": ["b", "x"]}) == ["a", "c"]


def test_deleting_from_a_list_that_is_not_there_adds_nothing():
    assert apply({}, {"$deleteFromPrimitiveList/finalizers": ["b"]}, POD) == {}


def test_scalars_can_be_put_in_order():
    assert finalizers(["a", "b"], **{"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}) == [
        "c",
        "b",
        "a",
    ]


def test_a_delete_directive_names_its_list():
    with pytest.raises(PatchFormatError, match=r"^invalid patch format of primitive list$"):
        apply({}, {"$deleteFromPrimitiveList": ["b"]}, POD)


# -- order ------------------------------------------------------------------------------------------------------------


def ordered(stored, order, **patch):
    doc = {"containers": [{"name": name} for name in stored]}
    return names_of(
        spec(doc, {"$setElementOrder/containers": [{"name": name} for name in order]} | patch)["containers"]
    )


def test_an_order_alone_sorts_the_stored_items():
    assert ordered("abc", "cab") == ["c", "a", "b"]


def test_items_outside_the_order_stay_before_what_they_stood_before():
    assert ordered("abcd", "dc") == ["a", "b", "d", "c"]
    assert ordered("abcd", "db") == ["a", "c", "d", "b"]


def test_an_order_places_new_items():
    assert ordered("ab", "anb", containers=[{"name": "n"}]) == ["a", "n", "b"]


def test_a_renamed_item_comes_after_those_before_it():
    renamed = [{"name": "new"}, {"name": "old", "$patch": "delete"}]
    doc = {"containers": [{"name": "old"}, {"name": "injected"}]}
    patch = {"$setElementOrder/containers": [{"name": "new"}], "containers": renamed}
    assert names_of(spec(doc, patch)["containers"]) == ["injected", "new"]


def test_an_order_for_a_new_list_applies_to_the_patch():
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "b"}, {"name": "a"}],
    }
    assert names_of(spec({}, patch)["containers"]) == ["b", "a"]
    assert spec({}, {"$setElementOrder/containers": [{"name": "b"}]}) == {}


def test_the_patch_must_follow_its_own_order():
    with pytest.raises(PatchInternalError) as caught:
        ordered("ab", "ab", containers=[{"name": "b"}, {"name": "a"}])
    assert str(caught.value) == (
        "The order in patch list:\n[map[name:b] map[name:a]]\n"
        " doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n"
    )


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"$setElementOrder/containers": "x"}, "expected a []interface {}, but received a string"),
        (
            {"$setElementOrder/containers": [{"name": "web"}], "containers": None},
            "expected a []interface {}, but received a %!s(<nil>)",
        ),
        ({"$setElementOrder/containers": ["web"]}, "value for key 0 is not a map"),
        (
            {"$setElementOrder/containers": [{"x": 1}]},
            "map: map[x:1] does not contain declared merge key: name",
        ),
        (
            {"$setElementOrder/containers": [{"name": "web"}], "containers": ["web"]},
            "expected a map[string]interface {}, but received a string",
        ),
    ],
)
def test_malformed_orders_are_internal_errors(patch, message):
    with pytest.raises(PatchInternalError) as caught:
        spec(STORED, patch)
    assert str(caught.value) == message


def test_an_order_names_its_list():
    with pytest.raises(PatchFormatError, match=r"^invalid patch format of setElementOrder list$"):
        spec(STORED, {"$setElementOrder": []})


# -- laws -------------------------------------------------------------------------------------------------------------

names = st.sampled_from("abcd")
containers = st.lists(
    st.fixed_dictionaries(
        {"name": names}, optional={"image": st.sampled_from(["1", "2"]), "args": st.lists(names, max_size=2)}
    ),
    unique_by=lambda item: item["name"],
    max_size=4,
)
pods = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"finalizers": st.lists(names, unique=True, max_size=3)})},
    optional={"spec": st.fixed_dictionaries({}, optional={"containers": containers})},
)


@given(pods, pods)
def test_applying_twice_is_applying_once(doc, patch):
    once = apply(doc, patch, POD)
    assert apply(once, patch, POD) == once


@given(pods, pods)
def test_arguments_are_left_alone(doc, patch):
    before = copy.deepcopy((doc, patch))
    apply(doc, patch, POD)
    assert (doc, patch) == before


def test_directives_stay_in_the_patch_for_the_next_attempt():
    patch = {
        "spec": {
            "$retainKeys": ["containers"],
            "$setElementOrder/containers": [{"name": "proxy"}, {"name": "web"}],
            "containers": [{"name": "proxy", "$retainKeys": ["name"]}, {"name": "web", "$patch": "delete"}],
        }
    }
    doc = {"spec": STORED}
    before = copy.deepcopy((doc, patch))
    assert apply(doc, patch, POD) == apply(doc, patch, POD) == {"spec": {"containers": [{"name": "proxy"}]}}
    assert (doc, patch) == before


@given(pods, pods)
def test_keyed_lists_merge_like_maps(doc, patch):
    def as_map(pod):
        return {item["name"]: item for item in pod.get("spec", {}).get("containers", [])}

    assert as_map(apply(doc, patch, POD)) == merge(as_map(doc), as_map(patch))


@given(pods, pods)
def test_without_a_schema_and_directives_it_is_a_merge_patch(doc, patch):
    assert apply(doc, patch, None) == merge(doc, patch)
