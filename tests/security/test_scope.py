"""A resource is reached through URLs of its own scope only, and a list or watch never shows a neighbour's objects.

CVE-2019-11247: a cluster-scoped object could be reached through a namespaced URL, and was then authorised by a role in that
namespace. CVE-2022-3162: a prefix without its closing slash let a list of one type read another's objects.
"""

import base64
import json

import pytest
from every_route import RESOURCES, STORED, collection, identify, name_of, root
from hypothesis import given, settings
from hypothesis import strategies as st
from valid_objects import make

from api_client import CM, NS, Api, cm, served
from virtual_time import run

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CLUSTER = [resource for resource in RESOURCES if not resource.namespaced]
NAMESPACED = [resource for resource in STORED if resource.namespaced]


class NoStorage(Exception):
    """Raised in place of touching the store."""


def close_storage(api):
    """Record every read and write of the store from now on."""

    def refuse(*_args, **_kwargs):
        raise NoStorage

    for name in ("get", "range", "put", "delete", "follow"):
        setattr(api.storage, name, refuse)
    for resource in api.catalog:
        if resource.store is not None:
            resource.store.get = resource.store.find = refuse
            resource.store.cache.items = refuse


@pytest.mark.parametrize("resource", CLUSTER, ids=identify)
@served
async def test_cve_2019_11247_a_cluster_scoped_resource_is_not_found_in_a_namespace(api, resource):
    if resource.store is not None:
        await make(api, resource)
    close_storage(api)
    base = f"{root(resource)}/namespaces/default/{resource.resource}"
    paths = [
        base,
        f"{base}/{name_of(resource)}",
        *(f"{base}/{name_of(resource)}/{sub}" for sub in resource.subresources),
    ]
    for path in paths:
        for method in METHODS:
            answer = await api.request(method, path, {"metadata": {"name": name_of(resource)}})
            assert answer.status == 404, (method, path, answer)
        assert (await api.get(path, watch="true")).status == 404
    watched = f"{root(resource)}/watch/namespaces/default/{resource.resource}"
    assert (await api.get(watched)).status == 404


@pytest.mark.parametrize("resource", NAMESPACED, ids=identify)
@served
async def test_cve_2019_11247_a_namespaced_object_is_not_found_without_its_namespace(api, resource):
    await make(api, resource)
    close_storage(api)
    base = f"{root(resource)}/{resource.resource}"
    for path in (
        f"{base}/{name_of(resource)}",
        *(f"{base}/{name_of(resource)}/{sub}" for sub in resource.subresources),
    ):
        for method in METHODS:
            answer = await api.request(method, path, {"metadata": {"name": name_of(resource)}})
            assert answer.status == 404, (method, path, answer)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        # The list of all namespaces is there, and can only be read.
        assert (await api.request(method, base, {"metadata": {"name": name_of(resource)}})).status == 405


@served
async def test_cve_2019_11247_the_recording_store_records_a_request_of_the_right_scope(api):
    """The control: the same request with the right URL does reach the store."""
    close_storage(api)
    assert (await api.get(f"{CM}/it")).status == 500


# -- CVE-2022-3162

SIBLINGS = ("a", "a-b", "ab", "a.b", "b", "a0")


async def make_siblings(api):
    for namespace in SIBLINGS:
        if "." not in namespace:
            await api.made(NS, {"metadata": {"name": namespace}})
            for name in SIBLINGS:
                await api.made(f"{NS}/{namespace}/configmaps", cm(name))
                await api.made(f"{NS}/{namespace}/secrets", {"metadata": {"name": name}})


@served
async def test_cve_2022_3162_a_list_shows_one_namespace_of_one_resource(api):
    await make_siblings(api)
    for namespace in SIBLINGS:
        answer = await api.get(f"{NS}/{namespace}/configmaps")
        found = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer["items"]}
        assert found == ({(namespace, name) for name in SIBLINGS} if "." not in namespace else set())
        assert answer["kind"] == "ConfigMapList"


@served
async def test_cve_2022_3162_a_watch_shows_one_namespace_of_one_resource(api):
    await make_siblings(api)
    since = str(api.revision)
    watch = await api.watch(f"{NS}/a/configmaps", resourceVersion=since)
    for namespace in ("ab", "a-b", "b", "a0"):
        await api.made(f"{NS}/{namespace}/configmaps", cm("new"))
    await api.made(f"{NS}/a/secrets", {"metadata": {"name": "new"}})
    await api.made(f"{NS}/a/configmaps", cm("last"))
    assert await watch.brief(1) == [("ADDED", "last")]
    again = await api.watch(f"{NS}/a/configmaps", resourceVersion=since)
    assert await again.brief(1) == [("ADDED", "last")]


@pytest.fixture(scope="module")
def siblings():
    """A server with neighbours, and a history older than its present."""

    async def make():
        api = Api()
        await api.start()
        await make_siblings(api)
        old = api.revision
        await api.made(f"{NS}/a/configmaps", cm("later"))
        return api, old

    return run(make())


STARTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["../secrets/a", "/../../secrets/", "..", "a/../../ab/", "\0", "\uffff", "ab/", "%2e%2e/", "//"]),
    st.lists(st.sampled_from(["..", "a", "ab", "secrets", "", "."])).map("/".join),
)


@settings(max_examples=300)
@given(start=STARTS, past=st.sampled_from([-1, 0, 1]))
def test_cve_2022_3162_no_continue_token_reads_another_collection(siblings, start, past):
    api, old = siblings
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": -1 if past < 0 else old + past, "start": start}).encode()
    token = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    answer = run(api.get(f"{NS}/a/configmaps", continue_=token, limit="100"))
    assert answer.status in (200, 400, 410), answer
    for item in answer.json.get("items", ()):
        assert item["metadata"]["namespace"] == "a"
        assert "data" not in item or item["metadata"]["name"] in (*SIBLINGS, "later")


def test_every_collection_of_the_catalog_ends_its_prefix_with_a_slash():
    prefixes = {resource.store.prefix for resource in STORED}
    assert all(prefix.endswith("/") for prefix in prefixes)
    assert not any(one != other and one.startswith(other) for one in prefixes for other in prefixes)
    assert all(collection(resource).startswith(("/api/", "/apis/")) for resource in STORED)
