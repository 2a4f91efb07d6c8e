"""The forms an object can be asked for in: itself, a Table, its metadata alone."""

import json

import pytest

from api_client import CM, NS, PARTIAL, PARTIAL_LIST, PODS, TABLE, cm, pod, served

KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize("accept", [TABLE, KUBECTL])
@served
async def test_table_of_a_list(api, accept):
    await api.made(CM, cm("a", data={"k": "v"}))
    await api.made(CM, cm("b"))
    answer = await api.get(CM, headers={"accept": accept})
    assert answer.header("Content-Type") == "application/json"
    assert (answer["kind"], answer["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert answer.metadata == {"resourceVersion": str(api.revision)}
    assert [set(column) for column in answer["columnDefinitions"]] == [
        {"name", "type", "format", "description", "priority"}
    ] * 3
    assert answer["columnDefinitions"][0]["format"] == "name"
    assert [row["cells"] for row in answer["rows"]] == [["a", 1, "0s"], ["b", 0, "0s"]]


@served
async def test_table_of_one_object(api):
    made = await api.made(CM, cm("a"))
    answer = await api.get(f"{CM}/a", headers={"accept": TABLE})
    assert answer.metadata == {"resourceVersion": made["metadata"]["resourceVersion"]}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert answer["rows"][0]["object"] == partial


@served
async def test_table_of_nothing_still_has_columns(api):
    answer = await api.get(CM, headers={"accept": TABLE})
    assert (answer["rows"], len(answer["columnDefinitions"])) == ([], 3)


@served
async def test_table_of_the_older_version(api):
    accept = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
    assert (await api.get(CM, headers={"accept": accept}))["apiVersion"] == "meta.k8s.io/v1beta1"


@served
async def test_include_object_selects_the_object_of_rows(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    rows = {
        include: (await api.get(CM, headers={"accept": TABLE}, includeObject=include))["rows"][0]["object"]
        for include in ("", "Metadata", "Object", "None")
    }
    assert rows["None"] is None
    assert rows["Object"] == made
    assert rows[""] == rows["Metadata"]
    assert rows[""]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize("path", [CM, f"{CM}/a"])
@served
async def test_unknown_inclusion_is_refused(api, path):
    await api.made(CM, cm("a"))
    answer = await api.get(path, headers={"accept": TABLE}, includeObject="Foo")
    why = (
        'Unable to convert to Table as requested: includeObject: Invalid value: "Foo": '
        "must be 'Metadata', 'Object', 'None', or empty"
    )
    assert answer.error == (400, "BadRequest", why)


@served
async def test_table_pages_like_a_list(api):
    for name in "abc":
        await api.made(CM, cm(name))
    answer = await api.get(CM, headers={"accept": TABLE}, limit=2)
    assert len(answer["rows"]) == 2
    assert answer.metadata["remainingItemCount"] == 1
    rest = await api.get(CM, headers={"accept": TABLE}, limit=2, continue_=answer.metadata["continue"])
    assert [row["cells"][0] for row in rest["rows"]] == ["c"]


@served
async def test_rows_of_finished_pods_have_a_completed_condition(api):
    await api.made(PODS, pod("p"))
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    row = (await api.get(PODS, headers={"accept": TABLE}))["rows"][0]
    assert row["conditions"][0]["type"] == "Completed"


@served
async def test_every_kind_has_a_table(api):
    for resource in api.catalog:
        if "list" in resource.verbs and resource.store is not None:
            root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
            answer = await api.get(f"{root}/{resource.resource}", headers={"accept": TABLE})
            assert answer["kind"] == "Table", resource.resource
            # kube-apiserver prints the age of an IPAddress without a column for it.
            cells = len(answer["columnDefinitions"]) + (resource.kind == "IPAddress")
            assert all(len(row["cells"]) == cells for row in answer["rows"])


@served
async def test_metadata_of_one_object(api):
    made = await api.made(CM, cm("a", metadata={"labels": {"x": "y"}}, data={"metadata": "no"}))
    answer = await api.get(f"{CM}/a", headers={"accept": PARTIAL})
    assert answer.json == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }


@served
async def test_metadata_of_a_list(api):
    made = await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    answer = await api.get(CM, headers={"accept": PARTIAL_LIST}, limit=1)
    assert (answer["kind"], answer["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert answer.metadata["remainingItemCount"] == 1
    item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert answer["items"] == [item]
    assert (await api.get(f"{NS}/none/configmaps", headers={"accept": PARTIAL_LIST}))["items"] == []


@served
async def test_list_is_not_an_object_and_an_object_not_a_list(api):
    await api.made(CM, cm("a"))
    answer = await api.get(CM, headers={"accept": PARTIAL})
    assert answer.error[:2] == (406, "NotAcceptable")
    assert answer.message.startswith("you requested PartialObjectMetadata, but the requested object is a list")
    answer = await api.get(f"{CM}/a", headers={"accept": PARTIAL_LIST})
    assert answer.message.startswith("you requested PartialObjectMetadataList, but the requested object is not a list")


@served
async def test_writes_are_answered_in_the_requested_form(api):
    headers = {"accept": PARTIAL}
    answer = await api.post(CM, cm("a", data={"k": "v"}), headers=headers)
    assert (answer.status, answer["kind"]) == (201, "PartialObjectMetadata")
    answer = await api.put(f"{CM}/a", cm("a"), headers={"accept": TABLE})
    assert answer["kind"] == "Table"
    answer = await api.patch(f"{CM}/a", {"data": {"x": "y"}}, headers=headers)
    assert answer["kind"] == "PartialObjectMetadata"


@served
async def test_errors_are_statuses_in_every_form(api):
    for accept in (KUBECTL, f"{PARTIAL},application/json"):
        answer = await api.get(f"{CM}/none", headers={"accept": accept})
        assert (answer.status, answer["kind"]) == (404, "Status")


@served
async def test_ages_are_relative_to_the_time_of_the_request(api):
    import asyncio

    await api.made(CM, cm("a"))
    await asyncio.sleep(300)
    assert (await api.get(CM, headers={"accept": TABLE}))["rows"][0]["cells"][2] == "5m"


@served
async def test_table_in_yaml(api):
    await api.made(CM, cm("a"))
    accept = "application/yaml;as=Table;v=v1;g=meta.k8s.io"
    answer = await api.get(CM, headers={"accept": accept})
    assert answer.header("Content-Type") == "application/yaml"
    assert "kind: Table" in answer.text


@served
async def test_plain_list_is_the_objects_as_they_are_stored(api):
    for name in "ab":
        await api.made(CM, cm(name, data={"text": 'quotes " and \\ and é'}))
    answer = await api.get(CM)
    assert json.loads(answer.raw) == answer.json
    assert answer.raw.endswith(b"]}\n")
    assert [item["data"]["text"] for item in answer["items"]] == ['quotes " and \\ and é'] * 2
