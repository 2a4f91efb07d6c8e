import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.patch import strategicmerge
from kapi.api.patch.clientapply import MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply_patch, last_applied, with_last_applied
from kapi.api.patch.creation import IdentityChanged, PatchConflict, PatchCreationError
from kapi.api.patch.lastapplied import ANNOTATION
from kapi.schema.builtin.typed import kind_schema

CONFIG_MAP = kind_schema("", "v1", "ConfigMap").merge


def config_map(data, **metadata):
    meta = {"name": "cm1", "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def text_of(config):
    return with_last_applied(config)["metadata"]["annotations"][ANNOTATION]


def live(config, **metadata):
    """The object on the server after a configuration was applied for the first time."""
    applied = with_last_applied(config)
    return {**applied, "metadata": {**applied["metadata"], "uid": "u", "resourceVersion": "7", **metadata}}


# -- the annotation ---------------------------------------------------------------------------------------------------


def test_the_annotation_is_compact_and_sorted_and_ends_with_a_newline():
    assert text_of(config_map({"b": "2", "a": "1"})) == (
        '{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{},"name":"cm1","namespace":"default"}}\n'
    )


def test_other_annotations_are_in_the_text_and_the_annotation_is_not():
    config = config_map({}, annotations={"note": "x", ANNOTATION: "old"})
    assert json.loads(text_of(config))["metadata"]["annotations"] == {"note": "x"}
    assert with_last_applied(config)["metadata"]["annotations"] == {"note": "x", ANNOTATION: text_of(config)}


def test_a_configuration_without_metadata_gets_some():
    assert with_last_applied({"kind": "X"})["metadata"] == {
        "annotations": {ANNOTATION: '{"kind":"X","metadata":{"annotations":{}}}\n'}
    }


@pytest.mark.parametrize(
    "value, text",
    [
        ("a<b>&c\u2028\u2029é\x7f\b\x01", '"a\\u003cb\\u003e\\u0026c\\u2028\\u2029é\x7f\\b\\u0001"'),
        (1.0, "1"),
        (-0.5, "-0.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (12345678901234567890.0, "12345678901234567000"),
        ([True, None, {}], "[true,null,{}]"),
    ],
)
def test_values_are_written_as_kubectl_writes_them(value, text):
    assert text_of({"x": value}) == f'{{"metadata":{{"annotations":{{}}}},"x":{text}}}\n'


# Larger floats read back as integers of the same digits.
@given(st.dictionaries(st.text(max_size=3), st.floats(-(2**53), 2**53) | st.text(max_size=3)))
def test_the_annotation_round_trips(data):
    config = {"kind": "X", "metadata": {"annotations": {"a": "b"}}, "data": data}
    assert last_applied(with_last_applied(config)) == config


@given(st.dictionaries(st.text("ab<", max_size=2), st.text(max_size=3)))
def test_annotating_twice_is_annotating_once(annotations):
    once = with_last_applied(config_map({}, annotations=annotations))
    assert with_last_applied(once) == once


def test_the_configuration_itself_is_not_changed():
    config = config_map({"a": "1"}, annotations={})
    with_last_applied(config)
    assert config == config_map({"a": "1"}, annotations={})


@pytest.mark.parametrize("annotations", [None, {}, {ANNOTATION: ""}, {"other": "{}"}])
def test_an_object_may_never_have_been_applied(annotations):
    assert last_applied(config_map({}, annotations=annotations)) is None


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_an_annotation_that_is_no_object_is_refused(text):
    obj = config_map({}, annotations={ANNOTATION: text})
    with pytest.raises(PatchCreationError, match=ANNOTATION):
        last_applied(obj)
    with pytest.raises(PatchCreationError):
        apply_patch(obj, config_map({}), CONFIG_MAP)


# -- the patch --------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_when_nothing_changed():
    config = config_map({"a": "1"})
    assert apply_patch(live(config), config, CONFIG_MAP) is None
    assert apply_patch(live(config), config, None) is None


def test_a_change_is_sent_with_the_updated_annotation():
    before, after = config_map({"a": "1", "b": "1"}), config_map({"a": "2"})
    patch = {"data": {"a": "2", "b": None}, "metadata": {"annotations": {ANNOTATION: text_of(after)}}}
    assert apply_patch(live(before), after, CONFIG_MAP) == (STRATEGIC_MERGE_PATCH, patch)
    assert apply_patch(live(before), after, None) == (MERGE_PATCH, patch)


def test_an_object_that_was_created_otherwise_keeps_what_it_has():
    config = config_map({"a": "1"})
    media_type, patch = apply_patch(config_map({"a": "0", "b": "0"}), config, CONFIG_MAP)
    assert media_type == STRATEGIC_MERGE_PATCH
    assert patch == {"data": {"a": "1"}, "metadata": {"annotations": {ANNOTATION: text_of(config)}}}


def test_merging_lists_need_a_schema():
    before, after = ({"kind": "Pod", "spec": {"containers": [{"name": "a", "image": i}]}} for i in "ij")
    pod = kind_schema("", "v1", "Pod").merge
    _, patch = apply_patch(live(before), after, pod)
    assert patch["spec"] == {
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"name": "a", "image": "j"}],
    }
    _, patch = apply_patch(live(before), after, None)
    assert patch["spec"] == {"containers": [{"name": "a", "image": "j"}]}


def test_changes_of_others_can_be_kept():
    changed = {**live(config_map({"a": "1"})), "data": {"a": "theirs"}}
    with pytest.raises(PatchConflict):
        apply_patch(changed, config_map({"a": "2"}), CONFIG_MAP, overwrite=False)


def test_a_custom_resource_does_not_become_another_one():
    with pytest.raises(IdentityChanged):
        apply_patch(live(config_map({})), {**config_map({}), "kind": "Secret"}, None)


keys = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"))


@given(keys, keys, keys)
def test_applying_keeps_fields_of_others_and_applying_again_sends_nothing(before, after, theirs):
    """What others wrote stays unless a configuration names it, and applying again sends nothing."""
    changed = {**live(config_map(before)), "data": theirs}
    config = config_map(after)
    sent = apply_patch(changed, config, CONFIG_MAP)
    result = strategicmerge.apply(changed, sent[1], CONFIG_MAP) if sent else changed
    assert result["data"] == {key: value for key, value in theirs.items() if key not in before} | after
    assert result["metadata"]["uid"] == "u"
    assert last_applied(result) == config_map(after, annotations={})
    assert apply_patch(result, config, CONFIG_MAP) is None
