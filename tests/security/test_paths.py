"""Names that try to be paths: they are refused with 4xx, and no key is ever made of them.

CVE-2015-5305: an object named `../x` reached beyond its own directory of the store.
"""

import asyncio

import pytest
from every_route import STORED, collection, identify
from hypothesis import given, settings
from hypothesis import strategies as st
from valid_objects import valid

from api_client import CM, NS, Api, cm, served
from kapi.storage.keys import ROOT, parse_key
from virtual_time import run

NAMES = (
    "..",
    ".",
    "a/b",
    "../../core/secrets/default/x",
    "/",
    "a\0b",
    "%2e%2e",
    "a%2fb",
    "a%00b",
    "a\nb",
    "\ud7ff/..",
    "",
)
SEGMENTS = (
    "%2e%2e",
    "..",
    ".",
    "%2e",
    "%2f",
    "a%2fb",
    "%2e%2e%2fsecrets",
    "%00",
    "a%00",
    "%0a",
    "%ff",
    "%252e%252e",
    "%25",
    "..%2f..",
)


def keys(api):
    """Every key in the store."""

    async def read():
        return [entry.key for entry in (await api.storage.range("")).entries]

    return read()


async def assert_well_formed(api):
    for key in await keys(api):
        assert key.startswith(ROOT)
        location = parse_key(key)
        assert not {".", ".."} & set(location)


@pytest.mark.parametrize(
    "resource",
    [pytest.param(one, id=identify(one)) for one in STORED],
)
@served
async def test_cve_2015_5305_no_object_is_created_with_a_name_that_is_a_path(api, resource):
    before = await keys(api)
    for name in NAMES:
        for metadata in ({"name": name}, {"generateName": name or "../"}, {"name": "ok", "namespace": name or ".."}):
            obj = {**valid(resource), "metadata": metadata}
            answer = await api.request("POST", collection(resource), obj)
            if answer.status < 300:
                # A generated name may be right though its beginning alone is not; a cluster-scoped object has no namespace.
                assert "/" not in answer.metadata["name"]
                assert answer.metadata["name"] not in (".", "..")
            else:
                assert 400 <= answer.status < 500, (metadata, answer)
    await assert_well_formed(api)
    made = set(await keys(api)) - set(before)
    assert all(key.startswith(resource.store.prefix) for key in made)


@served
async def test_cve_2015_5305_role_names_are_any_single_path_segment(api):
    """Where names are free, as with roles, the check of paths is the only one."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert (await api.post(path, {"metadata": {"name": "system:a B~!"}})).status == 201
    for name in NAMES:
        answer = await api.post(path, {"metadata": {"name": name}})
        assert answer.status == 422, (name, answer)
    await assert_well_formed(api)


@pytest.mark.parametrize("segment", SEGMENTS)
@served
async def test_cve_2015_5305_a_path_in_a_url_segment_reads_nothing(api, segment):
    await api.made(f"{NS}/default/secrets", {"metadata": {"name": "canary"}, "stringData": {"a": "canary-value"}})
    paths = [f"{CM}/{segment}", f"{CM}/{segment}/canary", f"{NS}/{segment}/secrets", f"{NS}/{segment}/secrets/canary"]
    paths += [f"{CM}/{segment}/secrets/canary", f"/api/v1/{segment}/namespaces", f"/api/{segment}/v1/pods"]
    paths += [f"/apis/{segment}/v1/things", f"/apis/apps/{segment}/deployments", f"/{segment}/api/v1/secrets"]
    before = await keys(api)
    for path in paths:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = await api.request(method, path, cm("a"))
            nothing_there = answer.status == 200 and answer.json.get("items") == []
            assert 400 <= answer.status < 500 or nothing_there, (method, path, answer)
            assert b"canary-value" not in answer.raw
    assert await keys(api) == before


PARTS = st.sampled_from(
    ["api", "v1", "apis", "apps", "namespaces", "default", "configmaps", "secrets", "..", ".", "%2e%2e", "%2f", "", "a"]
)


@settings(max_examples=200)
@given(st.lists(PARTS, max_size=9), st.sampled_from(["POST", "PUT", "DELETE"]), st.sampled_from(NAMES))
def test_cve_2015_5305_no_combination_builds_a_key_outside_the_registry(parts, method, name):
    async def main():
        api = Api()
        await api.catalog.hub.load()
        async with asyncio.timeout(1000):
            await api.request(method, "/" + "/".join(parts), cm(name))
        await assert_well_formed(api)
        await api.stop()

    run(main())
