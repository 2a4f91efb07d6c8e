"""Validation of CustomResourceDefinitions, compared with the answers of Kubernetes 1.36 to the same requests.

The corpus has the definitions and what the real server said; errors are compared as sets, since it lists them in no
order of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crd_support import STRATEGY, causes, create, decoded, definition, stored, update, version

from kapi.api.errors import Invalid
from kapi.api.meta import GroupKind

CORPUS = json.loads(Path(__file__).with_name("crd_corpus.json").read_text("utf-8"))


@pytest.mark.parametrize("name", CORPUS["refused"])
def test_an_invalid_definition_is_refused_with_every_cause_of_kube_apiserver(name):
    case = CORPUS["refused"][name]
    _, errors = create(case["object"])
    assert causes(errors) == case["causes"]


@pytest.mark.parametrize("name", CORPUS["accepted"])
def test_a_valid_definition_gets_the_defaults_and_warnings_of_kube_apiserver(name):
    case = CORPUS["accepted"][name]
    obj, errors = create(case["object"])
    assert errors == []
    assert obj["spec"] == case["spec"]
    assert sorted(STRATEGY.warnings(obj, None)) == case["warnings"]


@pytest.mark.parametrize("name", CORPUS["updates"])
def test_an_update_is_validated_as_in_kube_apiserver(name):
    case, old = CORPUS["updates"][name], CORPUS["stored"]
    obj, errors = update(case["new"], old)
    assert causes(errors) == case["causes"]
    if not errors:
        assert obj["metadata"]["generation"] == case["generation"]
        assert obj["status"]["storedVersions"] == case["storedVersions"]


def test_the_message_lists_all_errors():
    _, errors = create(definition(scope="Galaxy", versions=[]))
    refusal = Invalid.of(GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"), "things.example.dev", errors)
    assert str(refusal) == (
        'CustomResourceDefinition.apiextensions.k8s.io "things.example.dev" is invalid: [spec.scope: Unsupported value: '
        '"Galaxy": supported values: "Cluster", "Namespaced", spec.versions: Invalid value: []: must have exactly one '
        "version marked as storage version, status.storedVersions: Invalid value: null: must have at least one stored "
        "version]"
    )


# -- updates that only matter here ---------------------------------------------------------------------------------------


def test_a_definition_that_never_got_its_names_may_change_kind_and_scope():
    holder = stored(definition("gadgets", "Thing"))
    old = stored(definition(names={"singular": "widget", "listKind": "WidgetList"}), holder)
    new = definition(scope="Cluster")
    new["spec"]["names"] = {"plural": "things", "kind": "Widget"}
    obj, errors = update(new, old, holder)
    assert errors == []
    assert [one["status"] for one in obj["status"]["conditions"]] == ["True", "True"]


def test_a_format_that_was_there_before_is_not_warned_about_again():
    odd = version(schema={"type": "object", "properties": {"a": {"type": "string", "format": "odd"}}})
    old = stored(definition(versions=[odd]))
    assert STRATEGY.warnings(old, None) == ['unrecognized format "odd"']
    assert STRATEGY.warnings(old, old) == []


def test_a_change_between_a_number_and_a_truth_value_is_a_change():
    def with_default(value):
        props = {
            "type": "object",
            "properties": {"a": {"x-kubernetes-preserve-unknown-fields": True, "default": value}},
        }
        return definition(versions=[version(schema=props)])

    old = stored(with_default(1))
    assert STRATEGY.generation_changed(decoded(with_default(True)), old)
    assert not STRATEGY.generation_changed(decoded(with_default(1)), old)


def test_an_annotation_on_a_community_group_that_stays_missing_is_not_asked_for():
    old = definition(group="foo.k8s.io")
    old["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, test"}
    old = stored(old)
    del old["metadata"]["annotations"]
    _, errors = update(definition(group="foo.k8s.io", scope="Namespaced"), old)
    assert errors == []


def test_an_annotation_on_a_community_group_cannot_be_taken_away():
    old = definition(group="foo.k8s.io")
    old["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
    _, errors = update(definition(group="foo.k8s.io"), stored(old))
    assert [error.field for error in errors] == ["metadata.annotations[api-approved.kubernetes.io]"]


def test_selectable_fields_beyond_the_limit_stay_when_they_were_stored_so():
    fields = {f"f{index}": {"type": "string"} for index in range(9)}
    props = {"type": "object", "properties": fields}
    crowded = version(schema=props, selectableFields=[{"jsonPath": f".{name}"} for name in fields])
    old = stored(definition())
    old["spec"]["versions"] = [crowded]
    assert update(definition(versions=[crowded]), old)[1] == []
    fewer = {**crowded, "selectableFields": crowded["selectableFields"][::-1]}
    _, errors = update(definition(versions=[fewer]), old)
    assert [str(error) for error in errors] == ["spec.selectableFields: Too many: 9: must have at most 8 items"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
        {
            "type": "array",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        {"type": "object", "properties": {"x": {"type": "string"}}, "default": {"y": 1}},
    ],
    ids=["set of objects", "key without default", "default with unknown field"],
)
def test_stored_invalid_values_may_stay(wrong):
    broken = version(schema={"type": "object", "properties": {"a": wrong}})
    old = stored(definition())
    assert update(definition(versions=[broken]), old)[1] != []
    old["spec"]["versions"] = [broken]
    assert update(definition(versions=[broken]), old)[1] == []


def test_a_status_is_validated_by_its_names_and_always_has_stored_versions():
    old = stored(definition())
    bare = {key: value for key, value in old.items() if key != "status"}
    STRATEGY.prepare_status(None, bare, old)
    assert bare["status"]["storedVersions"] == ["v1"]
    assert STRATEGY.validate_status(None, bare, old) == []
    bare["status"]["acceptedNames"]["plural"] = "BAD"
    assert [error.field for error in STRATEGY.validate_status(None, bare, old)] == ["status.acceptedNames.plural"]


# -- hostile definitions -------------------------------------------------------------------------------------------------


def _deep(levels):
    props = {"type": "string"}
    for _ in range(levels):
        props = {"type": "object", "properties": {"p": props}}
    return props


def test_a_schema_of_the_greatest_depth_is_validated():
    _, errors = create(definition(versions=[version(schema=_deep(110))]))
    assert errors == []


def test_thousands_of_versions_are_each_validated():
    versions = [version(f"v{index}", storage=index == 0) for index in range(1, 3000)]
    _, errors = create(definition(versions=[version(), *versions[1:]]))
    assert errors == []


def test_thousands_of_versions_that_repeat_a_name_are_shown_once():
    _, errors = create(definition(versions=[version(), *[version("v2", storage=False)] * 2000]))
    assert [error.field for error in errors] == ["spec.versions"]


def test_a_long_key_above_many_errors_does_not_multiply_the_message():
    faults = {f"p{index}": {"type": "strange"} for index in range(2000)}
    props = {"type": "object", "properties": {"k" * 100_000: {"type": "object", "properties": faults}}}
    _, errors = create(definition(versions=[version(schema=props)]))
    assert 0 < sum(len(str(error)) for error in errors) < 10_000_000


def test_wrong_list_keys_by_the_thousand_are_not_all_repeated():
    keys = [f"key-{index}" for index in range(5000)]
    wrong = {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}
    props = {"type": "object", "properties": {"a": {**wrong, "x-kubernetes-list-map-keys": keys}}}
    _, errors = create(definition(versions=[version(schema=props)]))
    assert 0 < sum(len(str(error)) for error in errors) < 10_000_000


def test_a_large_schema_in_a_message_is_cut():
    props = {"type": "object", "enum": [{}], "properties": {f"p{index}": {"type": "string"} for index in range(5000)}}
    _, errors = create(definition(versions=[version(schema=props, subresources={"status": {}})]))
    assert [error.field for error in errors] == ["spec.validation.openAPIV3Schema"]
    assert len(errors[0].body) < 500_000


def test_wrong_versions_by_the_thousand_make_a_bounded_answer():
    wrong = [version(f"V{index}", schema={"type": "strange"}) for index in range(10_000)]
    _, errors = create(definition(versions=wrong))
    assert 0 < sum(len(str(error)) for error in errors) < 3_000_000
