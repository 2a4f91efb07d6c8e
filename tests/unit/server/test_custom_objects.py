"""Creates and updates of custom objects: pruning, defaulting, validation, generation, and the messages of Kubernetes."""

import asyncio
import json

import pytest

from api_client import JSON_PATCH, MERGE, SlowStorage, served
from custom_kinds import (
    ANYTHING,
    GROUP,
    INTEGER,
    STRING,
    WIDGETS,
    defined,
    definition,
    record,
    redefined,
    version,
    widget,
)

W = f"{WIDGETS}/w"
RULES_SKIPPED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


async def stored(api, obj, **query):
    answer = await api.post(WIDGETS, obj, **query)
    assert answer.status == 201, answer
    return answer


# -- creating ---------------------------------------------------------------------------------------------------------


@served
async def test_unknown_fields_are_pruned_and_defaulting_is_applied(api):
    spec = record(
        known=STRING,
        filled={"type": "string", "default": "x"},
        nested={"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 3}}},
        list={"type": "array", "items": record(a=INTEGER, b={"type": "string", "default": "y"})},
        free={"type": "object", **ANYTHING, "properties": {"inner": record(a=INTEGER)}},
    )
    await defined(api, definition(spec=spec))
    given = {
        "known": "k",
        "zz": 1,
        "list": [{"a": 1, "zz": 2}, {}],
        "free": {"any": {"thing": [1]}, "inner": {"a": 1, "zz": 2}},
    }
    answer = await stored(api, widget(spec=given, top=1))
    assert answer["spec"] == {
        "known": "k",
        "filled": "x",
        "nested": {"deep": 3},
        "list": [{"a": 1, "b": "y"}, {"b": "y"}],
        "free": {"any": {"thing": [1]}, "inner": {"a": 1}},
    }
    assert "top" not in answer.json
    assert (await api.get(W)).json == answer.json


@served
async def test_unknown_fields_follow_field_validation(api):
    await defined(api, definition())
    odd = widget("odd", {"size": 1, "zz": 1, "tags": ["a"]}, metadata={"foo": 1})
    texts = ['unknown field "metadata.foo"', 'unknown field "spec.zz"']
    refused = await api.post(WIDGETS, odd, fieldValidation="Strict")
    assert refused.error == (
        400,
        "BadRequest",
        f'Widget in version "v1" cannot be handled as a Widget: strict decoding error: {", ".join(texts)}',
    )
    warned = await stored(api, odd)
    assert warned.warnings == texts
    assert (await stored(api, {**odd, "metadata": {"name": "b", "foo": 1}}, fieldValidation="Warn")).warnings == texts
    ignored = await stored(api, {**odd, "metadata": {"name": "c", "foo": 1}}, fieldValidation="Ignore")
    assert ignored.warnings == []
    assert "zz" not in ignored["spec"]
    assert "foo" not in ignored.metadata


@served
async def test_duplicate_fields_are_reported_before_unknown_ones(api):
    await defined(api, definition())
    body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1,"size":2,"zz":1}}'
    headers = {"content-type": "application/json"}
    refused = await api.request("POST", WIDGETS, body, headers=headers, fieldValidation="Strict")
    assert refused.message.endswith('strict decoding error: duplicate field "spec.size", unknown field "spec.zz"')
    warned = await api.request("POST", WIDGETS, body, headers=headers)
    assert warned.warnings == ['duplicate field "spec.size"', 'unknown field "spec.zz"']
    assert warned["spec"]["size"] == 2


@served
async def test_nulls_are_pruned_defaulted_or_kept_by_the_schema(api):
    spec = record(
        plain=STRING,
        filled={"type": "string", "default": "x"},
        nullable={"type": "string", "nullable": True},
        both={"type": "string", "nullable": True, "default": "y"},
    )
    await defined(api, definition(spec=spec))
    answer = await stored(api, widget(spec=dict.fromkeys(("plain", "filled", "nullable", "both"))))
    assert answer["spec"] == {"filled": "x", "nullable": None, "both": None}
    assert answer.warnings == []


@served
async def test_the_status_of_a_new_object_is_kept_only_without_a_status_subresource(api):
    await defined(api, definition(), definition("Gadget", status=False))
    assert "status" not in (await stored(api, widget(status={"ready": True}))).json
    path = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
    answer = await api.post(path, widget(kind="Gadget", status={"ready": True}))
    assert answer["status"] == {"ready": True}
    assert (await api.get(f"{path}/w/status")).status == 404


@served
async def test_names_can_be_generated(api):
    await defined(api, definition())
    obj = {**widget(), "metadata": {"generateName": "w-"}}
    names = {(await stored(api, obj)).metadata["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("w-") and len(name) == 7 for name in names)


@served
async def test_a_dry_run_shows_what_would_be_stored_and_stores_nothing(api):
    await defined(api, definition())
    before = api.revision
    answer = await stored(api, widget(spec={"size": 1, "zz": 2}), dryRun="All")
    assert answer["spec"] == {"size": 1, "colour": "red"}
    assert "resourceVersion" not in answer.metadata
    assert (await api.get(WIDGETS)).names == []
    assert (await api.post(WIDGETS, widget(spec={"size": "x"}), dryRun="All")).status == 422
    assert api.revision == before


@served
async def test_creating_an_existing_object_is_a_conflict(api):
    await defined(api, definition())
    await stored(api, widget())
    assert (await api.post(WIDGETS, widget())).error == (
        409,
        "AlreadyExists",
        'widgets.example.com "w" already exists',
    )


# -- apiVersion and kind of a body ------------------------------------------------------------------------------------

BODY = json.dumps(widget())
UNRECOGNIZED = "the object provided is unrecognized (must be of type Widget)"
MISMATCH = "the API version in the data ({}) does not match the expected API version (example.com/v1)"
WRONG_HEADS = [
    pytest.param({"kind": "Other"}, 422, 'Other.example.com "w" is invalid: kind: Invalid value: "Other": must be Widget', id="kind"),
    pytest.param({"apiVersion": "example.com/v9"}, 400, MISMATCH.format("example.com/v9"), id="version"),
    pytest.param({"apiVersion": "other.com/v1"}, 400, MISMATCH.format("other.com/v1"), id="group"),
    pytest.param({"apiVersion": "v1", "kind": "Pod"}, 400, MISMATCH.format("v1"), id="built-in"),
    pytest.param({"apiVersion": ""}, 400, MISMATCH.format(""), id="no-version"),
    pytest.param({"apiVersion": "a/b/c"}, 400, f"{UNRECOGNIZED}: unexpected GroupVersion string: a/b/c ", id="bad-version"),
    pytest.param({"kind": ""}, 400, f"{UNRECOGNIZED}: Object 'Kind' is missing in '", id="no-kind"),
    pytest.param({"kind": 3}, 400, f"{UNRECOGNIZED}: couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string (", id="number"),
]  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize(("head", "code", "text"), WRONG_HEADS)
@served
async def test_an_object_of_another_kind_is_refused(api, head, code, text, method):
    await defined(api, definition())
    if method == "PUT":
        await stored(api, widget())
    before = api.revision
    answer = await api.request(method, WIDGETS if method == "POST" else W, {**widget(), **head})
    assert answer.status == code, answer
    assert answer.message.startswith(text)
    assert api.revision == before


@served
async def test_a_body_without_a_kind_is_quoted_in_the_error(api):
    await defined(api, definition())
    body = {"metadata": {"name": "a-longer-name"}}
    shown = json.dumps(body)
    assert (await api.post(WIDGETS, body)).message == (
        f"{UNRECOGNIZED}: Object 'Kind' is missing in '{shown}' ({shown[:30]} ...)"
    )
    assert (await api.post(WIDGETS, body, fieldValidation="Ignore")).message == (
        f"Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in '{shown}'"
    )


@served
async def test_all_fields_of_an_unknown_version_are_unknown(api):
    beta = version("v1beta1", record(old=STRING))
    await defined(api, definition(versions=[version("v1", storage=True), beta]))
    unknown = await api.post(WIDGETS, {**widget(spec={"size": 1}), "apiVersion": f"{GROUP}/v9"})
    assert (unknown.status, unknown.warnings) == (400, ['unknown field "spec"'])
    other = await api.post(WIDGETS, {**widget(spec={"old": "1", "size": 1}), "apiVersion": f"{GROUP}/v1beta1"})
    assert (other.status, other.warnings) == (400, ['unknown field "spec.size"'])
    strict = await api.post(WIDGETS, {**widget(spec={}), "apiVersion": f"{GROUP}/v9"}, fieldValidation="Strict")
    assert strict.message == (
        'Widget in version "v9" cannot be handled as a Widget: strict decoding error: unknown field "spec"'
    )


MALFORMED = [
    pytest.param("metadata", "x", id="text"),
    pytest.param("metadata", [], id="list"),
    pytest.param("metadata", {"name": 3}, id="name"),
    pytest.param("metadata", {"name": "w", "labels": {"a": 1}}, id="label"),
    pytest.param("metadata", {"name": "w", "creationTimestamp": "x"}, id="time"),
]


@pytest.mark.parametrize(("key", "value"), MALFORMED)
@served
async def test_metadata_that_cannot_be_read_is_refused(api, key, value):
    await defined(api, definition())
    answer = await api.post(WIDGETS, {**widget(), key: value})
    assert (answer.status, answer["reason"]) == (400, "BadRequest")
    assert answer.message.startswith('Widget in version "v1" cannot be handled as a Widget: ')


@served
async def test_custom_objects_are_neither_read_from_nor_written_as_protobuf(api):
    await defined(api, definition())
    # An envelope with apiVersion and kind, and nothing else.
    head = b"\n\x0eexample.com/v1\x12\x06Widget"
    envelope = b"k8s\x00\n" + bytes([len(head)]) + head + b"\x12\x00"
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    assert (await api.request("POST", WIDGETS, envelope, headers=headers)).status == 415
    await stored(api, widget())
    accept = {"accept": "application/vnd.kubernetes.protobuf"}
    assert (await api.get(W, headers=accept)).status == 406
    both = await api.get(W, headers={"accept": "application/vnd.kubernetes.protobuf,application/json"})
    assert both.header("Content-Type") == "application/json"


@served
async def test_yaml_is_read_and_written(api):
    await defined(api, definition())
    text = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1, zz: 2}\n"
    headers = {"content-type": "application/yaml", "accept": "application/yaml"}
    answer = await api.request("POST", WIDGETS, text, headers=headers)
    assert answer.status == 201
    assert answer.warnings == ['unknown field "spec.zz"']
    assert "\n  size: 1\n" in answer.text


# -- validation -------------------------------------------------------------------------------------------------------


@served
async def test_every_validation_error_has_its_field_path(api):
    spec = record(
        ["n"],
        n={"type": "integer", "minimum": 1, "maximum": 10},
        s={"type": "string", "maxLength": 5},
        e={"type": "string", "enum": ["A", "B"]},
        ios={"x-kubernetes-int-or-string": True},
        set={"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    )
    spec["x-kubernetes-validations"] = [{"rule": "self.n < 9", "message": "n too big"}]
    await defined(api, definition(spec=spec))
    answer = await api.post(WIDGETS, widget(spec={"n": 99, "s": "toolong", "e": "Z", "ios": 1.5, "set": ["x", "x"]}))
    assert (answer.status, answer["reason"]) == (422, "Invalid")
    causes = {(cause["reason"], f"{cause['field']}: {cause['message']}") for cause in answer["details"]["causes"]}
    assert causes == {
        ("FieldValueInvalid", "spec.n: Invalid value: 99: spec.n in body should be less than or equal to 10"),
        ("FieldValueTooLong", "spec.s: Too long: may not be more than 5 bytes"),
        ("FieldValueNotSupported", 'spec.e: Unsupported value: "Z": supported values: "A", "B"'),
        ("FieldValueTypeInvalid", 'spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number"'),
        ("FieldValueDuplicate", 'spec.set[1]: Duplicate value: "x"'),
        ("FieldValueInvalid", RULES_SKIPPED),
    }  # fmt: skip
    assert answer.message.startswith('Widget.example.com "w" is invalid: [')
    assert answer["details"]["kind"] == "Widget"
    missing = await api.post(WIDGETS, widget(spec={}))
    assert missing.message == f'Widget.example.com "w" is invalid: [spec.n: Required value, {RULES_SKIPPED}]'
    ruled = await api.post(WIDGETS, widget(spec={"n": 9}))
    assert ruled.message == 'Widget.example.com "w" is invalid: spec: Invalid value: n too big'


@served
async def test_metadata_is_validated_like_that_of_built_in_kinds(api):
    await defined(api, definition())
    named = await api.post(WIDGETS, widget("Not_A_Name"))
    assert named.status == 422
    assert named.message.startswith('Widget.example.com "Not_A_Name" is invalid: metadata.name: Invalid value: ')
    labelled = await api.post(WIDGETS, widget(metadata={"labels": {"a b": "c"}}))
    assert labelled.status == 422
    assert labelled.message.startswith('Widget.example.com "w" is invalid: metadata.labels: Invalid value: "a b": ')
    elsewhere = await api.post(WIDGETS, widget(metadata={"namespace": "other"}))
    assert elsewhere.message == "the namespace of the provided object does not match the namespace sent on the request"


@served
async def test_finalizers_without_a_domain_are_warned_about(api):
    await defined(api, definition())
    advice = (
        'metadata.finalizers: "{}": prefer a domain-qualified finalizer name{} '
        "to avoid accidental conflicts with other finalizer writers"
    )
    plain = await stored(api, widget("a", metadata={"finalizers": ["hold"]}))
    assert plain.warnings == [advice.format("hold", "")]
    dotted = await stored(api, widget("b", metadata={"finalizers": ["example.com"]}))
    assert dotted.warnings == [advice.format("example.com", " including a path (/)")]
    fine = await stored(api, widget("c", metadata={"finalizers": ["example.com/hold", "orphan"]}))
    assert fine.warnings == []
    # Those that were there are not new.
    assert (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 1}})).warnings == []


@served
async def test_unchanged_values_are_not_validated_again(api):
    await defined(api, definition())
    await stored(api, widget(spec={"size": 20, "colour": "x"}))

    def narrow(spec):
        properties = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        properties["size"]["maximum"] = 10

    await redefined(api, "widgets.example.com", narrow)
    assert (await api.patch(W, {"spec": {"colour": "y"}})).status == 200
    assert (await api.patch(W, {"spec": {"size": 21}})).status == 422
    assert (await api.patch(W, {"spec": {"size": 9}})).status == 200
    assert (await api.patch(W, {"spec": {"size": 20}})).status == 422


@served
async def test_transition_rules_see_the_old_value(api):
    spec = record(name={**STRING, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]})
    await defined(api, definition(spec=spec))
    await stored(api, widget(spec={"name": "a"}))
    refused = await api.patch(W, {"spec": {"name": "b"}})
    assert refused.error == (
        422,
        "Invalid",
        'Widget.example.com "w" is invalid: spec.name: Invalid value: "b": is fixed',
    )
    assert (await api.patch(W, {"spec": {"name": None}})).status == 200
    assert (await api.patch(W, {"spec": {"name": "c"}})).status == 200


@served
async def test_metadata_errors_are_reported_for_the_update_and_its_result(api):
    await defined(api, definition())
    await stored(api, widget())
    answer = await api.patch(W, [{"op": "replace", "path": "/metadata/uid", "value": "x"}], JSON_PATCH)
    text = 'Invalid value: "x": field is immutable'
    assert answer.message == f'Widget.example.com "w" is invalid: metadata.uid: {text}'
    assert answer["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": text, "field": "metadata.uid"} for _ in range(2)
    ]


# -- updating ---------------------------------------------------------------------------------------------------------


@served
async def test_an_update_needs_the_current_resource_version(api):
    await defined(api, definition())
    first = await stored(api, widget(spec={"size": 1}))
    blind = await api.put(W, widget(spec={"size": 2}))
    assert blind.error == (
        422,
        "Invalid",
        'widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    )
    seen = {**first.json, "spec": {"size": 2}}
    assert (await api.put(W, seen)).status == 200
    assert (await api.put(W, seen)).error == (
        409,
        "Conflict",
        (
            'Operation cannot be fulfilled on widgets.example.com "w": the object has been modified; '
            "please apply your changes to the latest version and try again"
        ),
    )
    assert (await api.get(W))["spec"]["size"] == 2
    assert (await api.put(f"{WIDGETS}/x", {**first.json, "metadata": {"name": "x"}})).status == 404


@served
async def test_an_update_prunes_and_defaults_like_a_create(api):
    await defined(api, definition())
    first = await stored(api, widget(spec={"size": 1, "colour": "blue"}))
    answer = await api.put(W, {**first.json, "spec": {"size": 1, "zz": 1}})
    assert answer["spec"] == {"size": 1, "colour": "red"}
    assert answer.warnings == ['unknown field "spec.zz"']


@served
async def test_an_update_without_changes_writes_nothing(api):
    await defined(api, definition())
    first = await stored(api, widget(spec={"size": 1}))
    before = api.revision
    assert (await api.put(W, first.json)).json == first.json
    assert (await api.patch(W, {"spec": {"size": 1, "zz": 3}})).json == first.json
    assert api.revision == before


@served
async def test_managed_fields_are_reset_by_an_empty_entry_not_an_empty_list(api):
    await defined(api, definition())
    first = (await stored(api, widget(spec={"size": 1}))).json
    emptied = await api.put(W, {**first, "metadata": {**first["metadata"], "managedFields": []}})
    assert emptied.metadata["managedFields"] == first["metadata"]["managedFields"]
    forgotten = await api.put(W, {**first, "metadata": {**first["metadata"], "managedFields": [{}]}})
    assert "managedFields" not in forgotten.metadata


@served
async def test_generation_grows_with_changes_outside_metadata_and_status(api):
    await defined(api, definition())
    assert (await stored(api, widget(spec={"size": 1}))).metadata["generation"] == 1
    steps = [
        (W, {"metadata": {"labels": {"a": "b"}}}, 1),
        (W, {"spec": {"size": 2}}, 2),
        (W, {"status": {"ready": True}}, 2),
        (f"{W}/status", {"status": {"ready": True}}, 2),
        (W, {"metadata": {"generation": 9}}, 2),
        (W, {"spec": {"colour": "blue"}}, 3),
    ]
    for path, patch, generation in steps:
        assert (await api.patch(path, patch)).metadata["generation"] == generation, patch


@served
async def test_without_a_status_subresource_generation_grows_with_the_status(api):
    await defined(api, definition(status=False))
    await stored(api, widget(spec={"size": 1}))
    assert (await api.patch(W, {"status": {"ready": True}})).metadata["generation"] == 2
    assert (await api.patch(W, {"metadata": {"labels": {"a": "b"}}})).metadata["generation"] == 2


@served
async def test_a_deletion_that_waits_for_finalizers_increments_generation(api):
    await defined(api, definition())
    await stored(api, widget(metadata={"finalizers": ["example.com/hold"]}))
    answer = await api.delete(W)
    assert answer.metadata["generation"] == 2
    assert answer.metadata["deletionGracePeriodSeconds"] == 0
    again = await api.post(WIDGETS, widget())
    assert again.error == (409, "AlreadyExists", 'object is being deleted: widgets.example.com "w" already exists')
    freed = await api.patch(W, {"metadata": {"finalizers": []}})
    assert freed.status == 200
    assert (await api.get(W)).status == 404


# -- values of other types than the schema's --------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b'{"spec":{"size":"x"}}', b'{"spec":null}', b'{"spec":{"tags":null}}'])
@served
async def test_the_result_of_a_merge_patch_is_validated(api, body):
    await defined(api, definition())
    await stored(api, widget(spec={"size": 1, "tags": ["a"]}))
    answer = await api.request("PATCH", W, body, headers={"content-type": MERGE})
    assert answer.status == (422 if b'"x"' in body else 200)


@served(storage=SlowStorage)
async def test_concurrent_patches_are_all_applied(api):
    await defined(api, definition(spec=record(map={"type": "object", "additionalProperties": INTEGER})))
    await stored(api, widget(spec={"map": {}}))
    answers = await asyncio.gather(*(api.patch(W, {"spec": {"map": {f"k{n}": n}}}) for n in range(10)))
    assert {answer.status for answer in answers} == {200}
    assert (await api.get(W))["spec"]["map"] == {f"k{n}": n for n in range(10)}
