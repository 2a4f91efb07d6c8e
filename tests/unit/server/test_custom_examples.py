"""The example definitions in `tests/crds`, through the whole server: valid objects are stored, invalid ones are refused with the expected reason."""

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from api_client import APPLY, JSON_PATCH, NS, PARTIAL, TABLE, served
from custom_kinds import CRDS, conditions, defined, gone
from kapi.codec.yaml import decode_all

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[2] / "crds"
NAMES = sorted(path.name.removesuffix("-crd.yaml") for path in HERE.glob("*-crd.yaml"))
ERROR = "expect.example.com/error"
VERB = "expect.example.com/verb"
WHOLE = "whole-fraction"
"""Refused by kube-apiserver, which distinguishes 2.0 from 2 until it is stored. Here they are the same from the start."""


@cache
def _text(name, part):
    path = HERE / f"{name}-{part}.yaml"
    return path.read_text() if path.exists() else ""


@cache
def _json(name, part):
    # Parsing these files takes longer than all the rest.
    return json.dumps([one for one in yaml.load_all(_text(name, part), yaml.CSafeLoader) if one])


def documents(name, part):
    """The documents of a file, new ones each time."""
    return json.loads(_json(name, part))


class Example:
    """One definition and where its objects are."""

    def __init__(self, name):
        (self.crd,) = documents(name, "crd")
        self.good = documents(name, "good")
        self.bad = documents(name, "bad")
        spec = self.crd["spec"]
        self.group = spec["group"]
        self.versions = [version for version in spec["versions"] if version["served"]]
        self._plural = spec["names"]["plural"]
        self._namespaced = spec["scope"] == "Namespaced"

    def collection(self, api_version, namespace="default"):
        middle = f"namespaces/{namespace}/" if self._namespaced else ""
        return f"/apis/{api_version}/{middle}{self._plural}"

    def place(self, obj):
        """The collection an object belongs in."""
        return self.collection(obj["apiVersion"], obj["metadata"].get("namespace", "default"))

    def path(self, obj, version=None):
        api_version = obj["apiVersion"] if version is None else f"{self.group}/{version}"
        namespace = obj["metadata"].get("namespace", "default")
        return f"{self.collection(api_version, namespace)}/{obj['metadata']['name']}"


async def _prepared(api, name):
    example = Example(name)
    stored = await defined(api, example.crd)
    assert conditions(stored)["Established"][0] == "True"
    for namespace in {obj["metadata"].get("namespace", "default") for obj in [*example.good, *example.bad]}:
        await api.post(NS, {"metadata": {"name": namespace}})
    for obj in example.good:
        answer = await api.post(example.place(obj), obj, fieldValidation="Strict")
        assert answer.status == 201, answer
    return example


def _contained(part, whole):
    """Whether everything that was said is there; defaults may have come to it."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _contained(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(_contained, part, whole))
    return part == whole


def test_all_example_definitions_are_found():
    assert {"blueprint", "certificate", "collector", "large", "route", "workflow"} <= set(NAMES)
    assert all(documents(name, "good") for name in NAMES)
    assert [name for name in NAMES if not documents(name, "bad")] == ["large"]
    # The files are read in the same way as the server reads them.
    assert all(list(decode_all(_text(name, "good").encode())) == documents(name, "good") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
@served
async def test_good_objects_are_stored_as_they_are(api, name):
    example = await _prepared(api, name)
    stripped = "status" in (example.versions[0].get("subresources") or {})
    for obj in example.good:
        stored = (await api.get(example.path(obj))).json
        for key in obj.keys() - {"metadata", *(("status",) if stripped else ())}:
            assert _contained(obj[key], stored[key]), key


@pytest.mark.parametrize("name", [name for name in NAMES if name != "large"])
@served
async def test_bad_objects_are_refused_with_the_reason_they_expect(api, name):
    example = await _prepared(api, name)
    before = api.revision
    for obj in example.bad:
        annotations = obj["metadata"]["annotations"]
        if obj["metadata"]["name"] == WHOLE:
            continue
        if annotations.get(VERB) == "update":
            current = (await api.get(example.path(obj))).json
            answer = await api.put(example.path(obj), {**obj, "metadata": {**current["metadata"], "annotations": {}}})
        else:
            answer = await api.post(example.place(obj), obj)
        assert answer.status == 422, (obj["metadata"]["name"], answer)
        assert annotations[ERROR] in answer.message, obj["metadata"]["name"]
        assert answer["details"]["causes"]
    assert api.revision == before


@served
async def test_a_number_without_a_fraction_is_whole_however_it_is_written(api):
    example = await _prepared(api, "collector")
    (obj,) = [one for one in example.bad if one["metadata"]["name"] == WHOLE]
    assert b'"replicas": 2.0' in json.dumps(obj).encode()
    assert b'"replicas":2,' in (await api.post(example.place(obj), obj)).raw


@pytest.mark.parametrize("name", NAMES)
@served
async def test_every_version_shows_every_object_in_rows_and_columns(api, name):
    example = await _prepared(api, name)
    for version in example.versions:
        for obj in example.good:
            table = await api.get(example.path(obj, version["name"]), headers={"accept": TABLE})
            assert table["kind"] == "Table"
            columns = [column["name"] for column in table["columnDefinitions"]]
            wanted = [column["name"] for column in version.get("additionalPrinterColumns") or [{"name": "Age"}]]
            assert columns == ["Name", *wanted]
            (row,) = table["rows"]
            assert row["cells"][0] == obj["metadata"]["name"]
            assert len(row["cells"]) == len(columns)
            partial = await api.get(example.path(obj, version["name"]), headers={"accept": PARTIAL})
            assert partial.metadata == row["object"]["metadata"]


@pytest.mark.parametrize("name", NAMES)
@served
async def test_writing_back_what_was_read_changes_nothing(api, name):
    example = await _prepared(api, name)
    storage = next(version["name"] for version in example.versions if version["storage"])
    before = api.revision
    for obj in example.good:
        path = example.path(obj, storage)
        current = (await api.get(path)).json
        assert (await api.put(path, current, fieldValidation="Strict")).json == current
        replaced = [{"op": "replace", "path": "/spec", "value": current["spec"]}]
        assert (await api.patch(path, replaced, JSON_PATCH)).json == current
    assert api.revision == before


@pytest.mark.parametrize("name", NAMES)
@served
async def test_objects_go_through_a_cycle_of_changes(api, name):
    example = await _prepared(api, name)
    for obj in example.good:
        path = example.path(obj)
        generation = (await api.get(path)).metadata["generation"]
        labelled = await api.patch(path, {"metadata": {"labels": {"cycle": "1"}}})
        assert labelled.status == 200, labelled
        assert labelled.metadata["generation"] == generation
        applied = await api.patch(path, obj, APPLY, fieldManager="applier", force="true")
        assert applied.status == 200, applied
        again = await api.patch(path, obj, APPLY, fieldManager="applier", force="true")
        assert again.version == applied.version
        assert (await api.delete(path)).status == 200
        fresh = await api.patch(path, obj, APPLY, fieldManager="applier")
        assert fresh.status == 201, fresh
    await api.delete(f"{CRDS}/{example.crd['metadata']['name']}")
    await gone(api, example.crd["metadata"]["name"])
