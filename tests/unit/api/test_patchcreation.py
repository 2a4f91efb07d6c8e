import pytest

from kapi.api.patch.creation import (
    IdentityChanged,
    PatchConflict,
    PatchCreationError,
    json_merge_patch,
    three_way_json_merge_patch,
    three_way_merge_patch,
    two_way_merge_patch,
)
from kapi.schema.builtin.typed import kind_schema

POD = kind_schema("", "v1", "Pod").merge
DEPLOYMENT = kind_schema("apps", "v1", "Deployment").merge
BUDGET = kind_schema("policy", "v1", "PodDisruptionBudget").merge


def pod(**spec):
    return {"spec": spec}


def two_way(before, after):
    return two_way_merge_patch(pod(**before), pod(**after), POD).get("spec", {})


def three_way(original, modified, current, **options):
    return three_way_merge_patch(pod(**original), pod(**modified), pod(**current), POD, **options).get("spec", {})


def container(name, image="i", **more):
    return {"name": name, "image": image, **more}


# -- objects ----------------------------------------------------------------------------------------------------------


def test_equal_objects_need_no_patch():
    obj = pod(containers=[container("web", args=["-v"])], nodeSelector={})
    assert two_way_merge_patch(obj, obj, POD) == {}


def test_new_and_changed_fields_are_set_and_missing_ones_are_null():
    before = {"nodeSelector": {"a": "1", "b": "2"}, "hostname": "x", "priority": 1}
    after = {"nodeSelector": {"a": "1", "b": "3"}, "hostname": "x", "nodeName": "n"}
    assert two_way(before, after) == {"nodeSelector": {"b": "3"}, "nodeName": "n", "priority": None}


@pytest.mark.parametrize("before, after", [(1, True), (1, 1.0), ("1", 1), ({}, []), ([], ""), (0, False)])
def test_values_of_another_type_are_different(before, after):
    assert two_way_merge_patch({"x": before}, {"x": after}, POD) == {"x": after}
    assert two_way_merge_patch({"x": [before]}, {"x": [after]}, POD) == {"x": [after]}


def test_an_object_that_is_emptied_loses_its_keys_one_by_one():
    assert two_way({"nodeSelector": {"a": "1"}}, {"nodeSelector": {}}) == {"nodeSelector": {"a": None}}


def test_an_object_that_is_replaced_is_sent_whole_and_only_when_it_differs():
    before = {"spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}}
    after = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    assert two_way_merge_patch(before, after, BUDGET) == after
    assert two_way_merge_patch(after, after, BUDGET) == {}


def test_fields_the_schema_does_not_know_are_compared_as_plain_json():
    before = {"frobs": [{"name": "a"}, {"name": "b"}], "frob": {"a": 1, "b": 2}}
    after = {"frobs": [{"name": "b"}], "frob": {"b": 2}}
    assert two_way(before, after) == {"frobs": [{"name": "b"}], "frob": {"a": None}}


# -- retained keys ----------------------------------------------------------------------------------------------------


def strategy(**fields):
    return {"spec": {"strategy": fields}}


def test_retain_keys_lists_the_keys_that_stay():
    before, after = strategy(type="RollingUpdate", rollingUpdate={"maxSurge": 1}), strategy(type="Recreate")
    assert two_way_merge_patch(before, after, DEPLOYMENT) == strategy(
        type="Recreate", rollingUpdate=None, **{"$retainKeys": ["type"]}
    )


def test_defaults_of_the_server_are_removed_from_objects_with_retain_keys():
    config, current = strategy(type="RollingUpdate"), strategy(type="RollingUpdate", rollingUpdate={"maxSurge": 1})
    assert three_way_merge_patch(config, config, current, DEPLOYMENT) == strategy(**{"$retainKeys": ["type"]})


def test_items_with_retain_keys_list_the_keys_that_stay():
    before = {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}
    after = {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "emptyDir": {}}]}
    assert two_way(before, after) == {
        "$setElementOrder/volumes": [{"name": "a"}, {"name": "b"}],
        "volumes": [{"$retainKeys": ["hostPath", "name"], "name": "a", "hostPath": {"path": "/"}, "emptyDir": None}],
    }


# -- lists ------------------------------------------------------------------------------------------------------------


def test_items_are_added_changed_and_deleted_by_key():
    before = {"containers": [container("a"), container("b", args=["x"]), container("c"), container("d")]}
    after = {"containers": [container("new"), container("b", "j"), container("a")]}
    assert two_way(before, after) == {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "b"}, {"name": "a"}],
        "containers": [
            container("new"),
            {"name": "b", "image": "j", "args": None},
            {"$patch": "delete", "name": "c"},
            {"$patch": "delete", "name": "d"},
        ],
    }


def test_items_that_only_moved_send_their_order():
    before = {"containers": [container("a"), container("b")]}
    after = {"containers": [container("b"), container("a")]}
    assert two_way(before, after) == {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}


def test_deletions_are_sorted_as_text_and_the_last_item_leaves_no_order():
    before = {"containers": [container("a", ports=[{"containerPort": 9}, {"containerPort": 80}])]}
    patch = two_way(before, {"containers": [container("a", ports=[])]})
    assert patch["containers"] == [
        {
            "name": "a",
            "ports": [{"$patch": "delete", "containerPort": 80}, {"$patch": "delete", "containerPort": 9}],
        }
    ]


def test_a_list_that_was_empty_or_missing_is_sent_whole():
    after = {"containers": [container("a")]}
    assert two_way({"containers": []}, after) == after
    assert two_way({}, after) == after


def test_a_list_that_does_not_merge_is_replaced():
    assert two_way({"tolerations": [{"key": "a"}, {"key": "b"}]}, {"tolerations": [{"key": "b"}]}) == {
        "tolerations": [{"key": "b"}]
    }


def test_items_that_share_a_key_are_compared_from_the_end():
    dns = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    before = {"containers": [container("a", ports=dns)]}
    after = {"containers": [container("a", ports=[dns[0], {**dns[1], "name": "dns"}])]}
    assert two_way(before, before) == {}
    assert two_way(before, after)["containers"][0]["ports"] == [{"containerPort": 53, "name": "dns"}]


def test_merge_keys_of_different_types_are_different_items():
    before = {"containers": [container("a", ports=[{"containerPort": 1}])]}
    patch = two_way(before, {"containers": [container("a", ports=[{"containerPort": "1"}])]})
    assert patch["containers"][0]["ports"] == [{"containerPort": "1"}, {"$patch": "delete", "containerPort": 1}]


@pytest.mark.parametrize(
    "before, after, problem",
    [
        ([{"name": "a"}], [{"nom": "a"}], "map: map[nom:a] does not contain declared merge key: name"),
        ([{"name": "a"}], ["a"], "list element types are not identical: [[map[name:a]] [a]]"),
        ([["a"]], [["a"]], "lists of lists are not supported"),
    ],
)
def test_lists_that_cannot_be_merged_are_refused(before, after, problem):
    with pytest.raises(PatchCreationError) as caught:
        two_way({"containers": before}, {"containers": after})
    assert str(caught.value) == problem


# -- sets of scalars --------------------------------------------------------------------------------------------------


def finalizers(*names):
    return {"metadata": {"finalizers": [*names]}}


def test_scalars_are_added_to_and_deleted_from_a_set():
    assert two_way_merge_patch(finalizers("c", "b", "a"), finalizers("new", "b"), POD) == {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a", "c"],
            "$setElementOrder/finalizers": ["new", "b"],
            "finalizers": ["new"],
        }
    }


def test_a_set_that_is_emptied_has_no_order():
    assert two_way_merge_patch(finalizers("a"), finalizers(), POD) == {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}
    }


def test_a_set_is_compared_in_its_own_order():
    assert two_way_merge_patch(finalizers("b", "a"), finalizers("b", "a"), POD) == {}
    assert two_way_merge_patch(finalizers("b", "a"), finalizers("a", "b"), POD) == {
        "metadata": {"$setElementOrder/finalizers": ["a", "b"]}
    }


def test_a_scalar_named_twice_is_not_deleted():
    patch = two_way_merge_patch(finalizers("a", "a"), finalizers("a"), POD)
    assert patch == {"metadata": {"$setElementOrder/finalizers": ["a"]}}


# -- three-way --------------------------------------------------------------------------------------------------------


def test_fields_removed_from_the_configuration_are_deleted_and_those_of_others_stay():
    original = {"nodeSelector": {"a": "1", "b": "2"}}
    modified = {"nodeSelector": {"a": "3"}}
    current = {"nodeSelector": {"a": "1", "b": "2", "theirs": "x"}, "nodeName": "n"}
    assert three_way(original, modified, current) == {"nodeSelector": {"a": "3", "b": None}}


def test_changes_of_others_are_set_back():
    config = {"nodeSelector": {"a": "1"}}
    assert three_way(config, config, {"nodeSelector": {"a": "2", "b": "2"}}) == {"nodeSelector": {"a": "1"}}


def test_items_others_added_stay_and_the_order_of_ours_is_sent():
    config = {"containers": [container("web")]}
    current = {"containers": [container("sidecar"), container("web")]}
    assert three_way(config, config, current) == {"$setElementOrder/containers": [{"name": "web"}]}


def test_deletions_and_additions_meet_in_one_item():
    original = {"containers": [container("gone"), container("web", args=["x"]), container("same")]}
    modified = {"containers": [container("new"), container("same"), container("web", "j")]}
    current = {"containers": [container("web", args=["y"]), container("gone"), container("same")]}
    assert three_way(original, modified, current) == {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "same"}, {"name": "web"}],
        "containers": [
            container("new"),
            {"name": "web", "image": "j", "args": None},
            {"$patch": "delete", "name": "gone"},
        ],
    }


def test_deletions_are_sent_though_the_list_is_gone_already():
    original = {"imagePullSecrets": [{"name": "a"}]}
    assert three_way(original, {"imagePullSecrets": []}, {}) == {
        "imagePullSecrets": [{"$patch": "delete", "name": "a"}]
    }


def test_items_deleted_by_others_are_sent_whole_without_directives():
    original = {"volumes": [{"name": "a", "emptyDir": {}}]}
    modified = {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}
    order = {"$setElementOrder/volumes": [{"name": "a"}]}
    assert three_way(original, modified, {"volumes": [{"name": "b"}]}) == modified | order
    assert three_way(original, modified, {}) == modified | order


def test_new_items_that_share_a_key_are_all_sent():
    dns = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    original = {"containers": [container("a", ports=[{"containerPort": 80}])]}
    patch = three_way(original, {"containers": [container("a", ports=dns)]}, original)
    assert patch["containers"][0]["ports"] == [dns[1], dns[0], {"$patch": "delete", "containerPort": 80}]


# -- conflicts --------------------------------------------------------------------------------------------------------


def test_changes_others_made_are_not_overwritten_when_asked():
    original, modified, current = ({"nodeSelector": {"a": value}} for value in "123")
    assert three_way(original, modified, current) == modified
    with pytest.raises(PatchConflict) as caught:
        three_way(original, modified, current, overwrite=False)
    assert caught.value.patch == pod(**modified)
    assert caught.value.changes == pod(**current)
    assert str(caught.value) == (
        'patch:\n{"spec":{"nodeSelector":{"a":"2"}}}\n'
        'conflicts with changes made from original to current:\n{"spec":{"nodeSelector":{"a":"3"}}}\n'
    )


@pytest.mark.parametrize(
    "original, modified, current",
    [
        pytest.param(*({"tolerations": [{"key": key}]} for key in "abc"), id="a list that is replaced"),
        pytest.param(*({"containers": [container("a", image)]} for image in "abc"), id="a field of an item"),
        pytest.param(
            {"containers": [container("a")]}, {"containers": []}, {"containers": [container("a", "j")]}, id="an item"
        ),
        pytest.param({"hostname": "a"}, {"hostname": "b"}, {}, id="a field others deleted"),
    ],
)
def test_whatever_both_sides_touch_in_different_ways_conflicts(original, modified, current):
    with pytest.raises(PatchConflict):
        three_way(original, modified, current, overwrite=False)


@pytest.mark.parametrize(
    "original, modified, current",
    [
        pytest.param({}, {"nodeName": "n"}, {"nodeName": "n"}, id="the same change"),
        pytest.param({"hostname": "a"}, {}, {}, id="the same deletion"),
        pytest.param({"nodeSelector": {}}, {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "1"}}, id="other keys"),
        pytest.param(
            {"containers": [container("a"), container("b")]},
            {"containers": [container("a", "j"), container("b")]},
            {"containers": [container("a"), container("b", tty=True)]},
            id="other items",
        ),
    ],
)
def test_changes_that_do_not_meet_do_not_conflict(original, modified, current):
    assert three_way(original, modified, current, overwrite=False) == three_way(original, modified, current)


def test_sets_never_conflict():
    original, modified, current = finalizers("a", "b"), finalizers("a", "c"), finalizers("b", "d")
    patch = three_way_merge_patch(original, modified, current, POD, overwrite=False)
    assert patch["metadata"]["$deleteFromPrimitiveList/finalizers"] == ["b"]


def test_objects_that_are_replaced_conflict_as_a_whole():
    original, modified, current = ({"spec": {"selector": {"matchLabels": {key: "1"}}}} for key in "abc")
    with pytest.raises(PatchConflict):
        three_way_merge_patch(original, modified, current, BUDGET, overwrite=False)


# -- JSON merge patches -----------------------------------------------------------------------------------------------


def test_a_json_merge_patch_replaces_lists():
    before = {"a": [{"name": "x"}, {"name": "y"}], "b": {"c": 1, "d": 2}, "e": 1}
    after = {"a": [{"name": "y"}], "b": {"c": 1}, "f": {}}
    assert json_merge_patch(before, after) == {"a": [{"name": "y"}], "b": {"d": None}, "e": None, "f": {}}


def widget(name="w", **spec):
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_a_three_way_json_merge_patch_keeps_what_others_added():
    patch = three_way_json_merge_patch(widget(a=1, b=2), widget(a=3, c=[1]), widget(a=1, b=2, theirs=1))
    assert patch == {"spec": {"a": 3, "b": None, "c": [1]}}


@pytest.mark.parametrize(
    "modified",
    [widget("other"), {**widget(), "kind": "Gadget"}, {**widget(), "apiVersion": "example.com/v2"}],
)
def test_an_object_does_not_become_another_one(modified):
    with pytest.raises(IdentityChanged, match=r"^At least one of apiVersion, kind and name was changed$"):
        three_way_json_merge_patch(widget(), modified, widget())
