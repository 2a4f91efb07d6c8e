"""The record of ownership that creates, updates and patches keep: under whose name, of what, and when."""

import asyncio

import pytest

from api_client import APPLY, CM, DEPLOY, JSON_PATCH, MERGE, NS, STRATEGIC, SVC, cm, deployment, served

A = f"{CM}/a"
D = f"{DEPLOY}/d"
EMPTY = [[], [{}]]


def entries(answer):
    return answer.metadata.get("managedFields", [])


def names(answer):
    return [entry.get("manager") for entry in entries(answer)]


def owned(answer):
    """What each entry owns, by manager; a manager must have one entry only."""
    assert len(set(names(answer))) == len(names(answer))
    return {entry["manager"]: entry["fieldsV1"] for entry in entries(answer)}


def agent(name):
    return {"user-agent": name}


# -- whose name -------------------------------------------------------------------------------------------------------


@served
async def test_a_create_owns_the_fields_it_sent(api):
    answer = await api.post(CM, cm("a", metadata={"labels": {"l": "1"}}, data={"k": "v"}), headers=agent("curl/8 x"))
    assert entries(answer) == [
        {
            "manager": "curl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": answer.metadata["creationTimestamp"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}},
        }
    ]
    assert (await api.get(A)).json == answer.json


@pytest.mark.parametrize(
    ("header", "manager"),
    [
        ("kubectl/v1.36.4 (linux/amd64)", "kubectl"),
        ("curl", "curl"),
        ("/nothing", "unknown"),
        ("", "unknown"),
        ("x" * 200 + "/1", "x" * 128),
        ("a\x7fb/1", "ab"),
        # A character that does not fit any more is left out whole.
        ("x" * 127 + "\u00e9/1", "x" * 127),
    ],
)
@served
async def test_the_default_field_manager_is_the_user_agent(api, header, manager):
    answer = await api.post(CM, cm("a", data={"k": "v"}), headers=agent(header))
    assert names(answer) == [manager]


@served
async def test_the_field_manager_parameter_overrides_the_user_agent(api):
    answer = await api.post(CM, cm("a", data={"k": "v"}), headers=agent("curl"), fieldManager="me")
    assert names(answer) == ["me"]
    answer = await api.post(CM, cm("b"), fieldManager="x" * 129)
    assert answer.error[:2] == (422, "Invalid")
    assert "fieldManager: Too long: may not be more than 128 bytes" in answer.message


@served
async def test_a_write_without_fields_owns_nothing(api):
    answer = await api.post(CM, cm("a"))
    assert "managedFields" not in answer.metadata


@served
async def test_defaults_are_owned_by_the_field_manager_that_wrote_the_object(api):
    answer = await api.post(DEPLOY, deployment("d"), fieldManager="me")
    spec = owned(answer)["me"]["f:spec"]
    assert {"f:replicas", "f:revisionHistoryLimit", "f:selector", "f:strategy", "f:template"} <= set(spec)
    assert "f:status" not in owned(answer)["me"]


@served
async def test_allocated_values_have_no_field_manager(api):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    answer = await api.post(SVC, service, fieldManager="me")
    assert answer["spec"]["clusterIP"]
    assert "f:clusterIP" not in owned(answer)["me"]["f:spec"]


@served
async def test_the_name_label_of_a_namespace_is_owned_by_its_creator(api):
    answer = await api.post(NS, {"metadata": {"name": "n"}}, fieldManager="me")
    assert owned(answer) == {"me": {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}}


# -- changes ----------------------------------------------------------------------------------------------------------


@served
async def test_an_update_owns_changed_fields_and_removed_fields_have_no_owner(api):
    await api.post(CM, cm("a", metadata={"labels": {"l": "1"}}, data={"k": "v", "n": "1"}), fieldManager="one")
    answer = await api.put(A, cm("a", data={"k": "w", "n": "1"}), fieldManager="two")
    assert owned(answer) == {"one": {"f:data": {".": {}, "f:n": {}}}, "two": {"f:data": {"f:k": {}}}}


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (MERGE, {"data": {"k": None, "n": "1"}}),
        (STRATEGIC, {"data": {"k": None, "n": "1"}}),
        (JSON_PATCH, [{"op": "remove", "path": "/data/k"}, {"op": "add", "path": "/data/n", "value": "1"}]),
    ],
)
@served
async def test_a_patch_is_recorded_like_an_update(api, media, patch):
    await api.post(CM, cm("a", data={"k": "v"}), fieldManager="one")
    answer = await api.patch(A, patch, media, fieldManager="two")
    assert owned(answer) == {"one": {"f:data": {}}, "two": {"f:data": {"f:n": {}}}}


@served
async def test_a_field_manager_that_updates_twice_has_one_entry(api):
    await api.post(CM, cm("a", data={"k": "v"}), fieldManager="one")
    await api.patch(A, {"data": {"l": "1"}}, fieldManager="one")
    answer = await api.patch(A, {"data": {"m": "1"}}, fieldManager="one")
    assert owned(answer) == {"one": {"f:data": {".": {}, "f:k": {}, "f:l": {}, "f:m": {}}}}


@served
async def test_apply_and_update_of_one_field_manager_are_two_entries(api):
    await api.patch(A, cm("a", data={"k": "1"}), APPLY, fieldManager="me")
    answer = await api.patch(A, {"data": {"l": "1"}}, fieldManager="me")
    assert [(entry["manager"], entry["operation"]) for entry in entries(answer)] == [("me", "Apply"), ("me", "Update")]


@served
async def test_status_updates_are_recorded_with_their_subresource(api):
    await api.post(DEPLOY, deployment("d"), fieldManager="one")
    answer = await api.patch(f"{D}/status", {"status": {"replicas": 1}, "spec": {"replicas": 7}}, fieldManager="one")
    assert [entry.get("subresource") for entry in entries(answer)] == [None, "status"]
    assert entries(answer)[1]["fieldsV1"] == {"f:status": {"f:replicas": {}}}
    assert answer["spec"]["replicas"] == 1


@served
async def test_entries_are_sorted_by_operation_time_and_name(api):
    await api.post(CM, cm("a", data={"k": "v"}), fieldManager="late")
    await asyncio.sleep(5)
    await api.patch(A, {"data": {"b": "1"}}, fieldManager="b")
    await api.patch(A, {"data": {"a": "1"}}, fieldManager="a")
    await api.patch(A, cm("a", data={"z": "1"}), APPLY, fieldManager="z")
    answer = await api.patch(A, cm("a", data={"k": "v"}), APPLY, fieldManager="y")
    assert [(e["operation"], e["manager"]) for e in entries(answer)] == [
        ("Apply", "y"),
        ("Apply", "z"),
        ("Update", "late"),
        ("Update", "a"),
        ("Update", "b"),
    ]
    assert "time" not in entries(answer)[0]


@served
async def test_the_time_of_an_entry_is_its_last_change(api):
    made = await api.post(CM, cm("a", data={"k": "v"}), fieldManager="one")
    await asyncio.sleep(60)
    assert (await api.put(A, cm("a", data={"k": "v"}), fieldManager="one")).json == made.json
    same = await api.patch(A, cm("a", data={"x": "1"}), APPLY, fieldManager="two")
    await asyncio.sleep(60)
    again = await api.patch(A, cm("a", data={"x": "1"}), APPLY, fieldManager="two")
    assert again.json == same.json
    later = await api.patch(A, {"data": {"n": "1"}}, fieldManager="one")
    times = {entry["manager"]: entry["time"][11:19] for entry in entries(later)}
    start = int(made.metadata["creationTimestamp"][14:16])
    assert {name: int(time[3:5]) - start for name, time in times.items()} == {"one": 2, "two": 1}


@served
async def test_an_entry_that_loses_its_last_field_is_removed(api):
    await api.post(CM, cm("a", data={"k": "v", "l": "w"}), fieldManager="one")
    shared = await api.patch(A, cm("a", data={"k": "v"}), APPLY, fieldManager="two")
    left = await api.patch(A, cm("a"), APPLY, fieldManager="two")
    assert left["data"] == shared["data"]
    assert int(left.version) > int(shared.version)
    assert names(left) == ["one"]


# -- sent by a client -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("how", ["put", MERGE, STRATEGIC, JSON_PATCH])
@served
async def test_an_empty_managed_fields_list_resets_ownership(api, empty, how):
    await api.post(CM, cm("a", data={"k": "v"}), fieldManager="one")
    await api.patch(A, cm("a", data={"l": "w"}), APPLY, fieldManager="two")
    if how == "put":
        answer = await api.put(A, cm("a", metadata={"managedFields": empty}, data={"k": "v", "l": "w"}))
    elif how == JSON_PATCH:
        answer = await api.patch(A, [{"op": "replace", "path": "/metadata/managedFields", "value": empty}], how)
    else:
        answer = await api.patch(A, {"metadata": {"managedFields": empty}}, how)
    assert (answer.status, answer["data"], entries(answer)) == (200, {"k": "v", "l": "w"}, [])
    assert entries(await api.get(A)) == []
    # An update does not begin to record again; the first apply does.
    answer = await api.patch(A, {"data": {"m": "1"}}, fieldManager="one")
    assert entries(answer) == []
    answer = await api.patch(A, cm("a", data={"n": "1"}), APPLY, fieldManager="two")
    assert owned(answer) == {
        "two": {"f:data": {"f:n": {}}},
        "before-first-apply": {"f:data": {".": {}, "f:k": {}, "f:l": {}, "f:m": {}}},
    }


@served
async def test_leaving_managed_fields_out_keeps_them(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    before = made["metadata"]["managedFields"]
    assert entries(await api.put(A, cm("a", data={"k": "v"}))) == before
    assert entries(await api.patch(A, {"metadata": {"managedFields": None}})) == before
    answer = await api.patch(A, [{"op": "remove", "path": "/metadata/managedFields"}], JSON_PATCH)
    assert (answer.version, entries(answer)) == (made["metadata"]["resourceVersion"], before)


@served
async def test_clients_may_replace_managed_fields(api):
    await api.post(CM, cm("a", data={"k": "v"}), fieldManager="one")
    claim = {"operation": "Apply", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    claim |= {"manager": "other", "fieldsV1": {"f:data": {"f:k": {}}}}
    answer = await api.put(A, cm("a", metadata={"managedFields": [claim]}, data={"k": "v"}))
    assert entries(answer) == [claim]
    assert (await api.patch(A, cm("a"), APPLY, fieldManager="other")).json.get("data") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": "Nope"},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"v:{": {}}},
        {"apiVersion": ""},
    ],
)
@served
async def test_invalid_managed_fields_are_ignored(api, wrong):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    claim = {"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    claim |= {"fieldsV1": {"f:data": {"f:k": {}}}, **wrong}
    answer = await api.put(A, cm("a", metadata={"managedFields": [claim]}, data={"k": "v"}))
    assert (answer.status, entries(answer)) == (200, made["metadata"]["managedFields"])


@pytest.mark.parametrize("empty", EMPTY)
@served
async def test_subresources_cannot_change_managed_fields(api, empty):
    made = await api.made(DEPLOY, deployment("d"))
    answer = await api.patch(f"{D}/status", {"metadata": {"managedFields": empty}})
    assert entries(answer) == made["metadata"]["managedFields"]


# -- bounds -----------------------------------------------------------------------------------------------------------


@served
async def test_the_oldest_of_more_than_ten_updates_are_merged(api):
    await api.post(CM, cm("a", data={"k0": "v"}), fieldManager="u0")
    for number in range(1, 13):
        await asyncio.sleep(1)
        answer = await api.patch(A, {"data": {f"k{number}": "v"}}, fieldManager=f"u{number}")
    assert names(answer) == ["ancient-changes", *(f"u{number}" for number in range(4, 13))]
    assert owned(answer)["ancient-changes"] == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}
    answer = await api.patch(A, cm("a", data={"k1": "w"}), APPLY, fieldManager="m")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "ancient-changes" using v1: .data.k1'


@served
async def test_the_first_apply_records_existing_fields_as_before_first_apply(api):
    await api.made(CM, cm("a"))
    answer = await api.patch(A, {"data": {"k": "v"}})
    assert entries(answer) == []
    answer = await api.patch(A, cm("a", data={"k": "w"}), APPLY, fieldManager="m")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k'


# -- moving from client-side apply ------------------------------------------------------------------------------------

LAST = "kubectl.kubernetes.io/last-applied-configuration"


@served
async def test_kubectl_may_change_fields_of_its_client_side_apply(api):
    text = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"a"}}\n'
    config = cm("a", metadata={"annotations": {LAST: text}}, data={"a": "1"})
    await api.post(CM, config, fieldManager="kubectl-client-side-apply")
    answer = await api.patch(A, cm("a", data={"a": "2"}), APPLY, fieldManager="another")
    assert 'conflict with "kubectl-client-side-apply" using v1: .data.a' in answer.message
    answer = await api.patch(A, cm("a", data={"a": "2"}), APPLY, fieldManager="kubectl")
    assert (answer.status, answer["data"]) == (200, {"a": "2"})
    # What is kept for the way back is what the client sent, no more.
    assert answer.metadata["annotations"][LAST] == (
        '{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    )
