"""What a server serves, asked in the new way and in the old one."""

import asyncio
import json

import pytest

from kapi.api.meta import GroupVersion
from kapi.client import AnswerError, ConnectionLost, DiscoveryClient, RESTClient, discovery
from kapi.client.rest import JSON


class Counting(RESTClient):
    """A client that counts what it sends."""

    def __init__(self, config, **more):
        super().__init__(config, **more)
        self.paths = []

    async def send(self, method, path, **options):
        self.paths.append(path)
        return await super().send(method, path, **options)


class OldFashioned(Counting):
    """A client that never asks for aggregated discovery, and so gets what an old server would give."""

    async def send(self, method, path, **options):
        return await super().send(method, path, **{**options, "accept": JSON})


def _discover(config, cls=Counting):
    async def main():
        async with cls(config) as rest:
            return await DiscoveryClient(rest).discover(), rest.paths

    return asyncio.run(main())


def test_two_requests_tell_everything(admin):
    found, paths = _discover(admin)
    assert sorted(paths) == ["/api", "/apis"]
    assert found.failures == ()
    assert found.group_versions[:2] == (GroupVersion("", "v1"), *found.group_versions[1:2])
    pods = next(resource for resource in found.resources if resource.resource == "pods")
    assert (pods.group, pods.version, pods.kind, pods.namespaced, pods.singular) == ("", "v1", "Pod", True, "pod")
    assert pods.short_names == ("po",)
    assert pods.categories == ("all",)
    assert {"get", "list", "watch", "create", "delete"} <= set(pods.verbs)
    assert {"status", "binding", "log"} <= set(pods.subresources)
    assert str(next(resource for resource in found.resources if resource.kind == "Deployment")) == "deployments.apps"


def test_old_servers_tell_the_same(admin):
    new, _ = _discover(admin)
    old, paths = _discover(admin, OldFashioned)
    assert "/api/v1" in paths
    assert "/apis/apps/v1" in paths
    assert old.group_versions == new.group_versions
    by_place = {resource.gvr: resource for resource in old.resources}
    assert set(by_place) == {resource.gvr for resource in new.resources}
    for resource in new.resources:
        other = by_place[resource.gvr]
        assert (other.kind, other.namespaced, other.short_names) == (
            resource.kind,
            resource.namespaced,
            resource.short_names,
        )
        assert set(other.subresources) == set(resource.subresources)


def test_answer_is_remembered_until_it_is_invalidated(admin):
    async def main():
        async with Counting(admin) as rest:
            discovery = DiscoveryClient(rest)
            assert not discovery.is_cached
            first, again = await asyncio.gather(discovery.discover(), discovery.discover())
            assert first is again
            assert discovery.is_cached
            assert len(rest.paths) == 2
            discovery.invalidate()
            assert (await discovery.discover()) == first
            return len(rest.paths)

    assert asyncio.run(main()) == 4


def test_the_version_of_the_server_is_returned(admin):
    async def main():
        async with RESTClient(admin) as rest:
            return await DiscoveryClient(rest).server_version()

    assert asyncio.run(main())["gitVersion"].startswith("v1.36")


GROUPS = {
    "kind": "APIGroupList",
    "groups": [
        {
            "name": "down.example",
            "versions": [{"groupVersion": "down.example/v1", "version": "v1"}],
            "preferredVersion": {"version": "v1"},
        },
        {
            "name": "up.example",
            "versions": [{"version": "v2"}, {"version": "v1"}],
            "preferredVersion": {"version": "v1"},
        },
    ],
}


def _answer(path, http):
    """What an old server with one broken group behind it says."""
    documents = {
        "/api": {"kind": "APIVersions", "versions": []},
        "/apis": GROUPS,
        "/apis/up.example/v1": {
            "kind": "APIResourceList",
            "resources": [
                {"name": "things", "singularName": "thing", "kind": "Thing", "namespaced": True, "verbs": ["get"]},
                {"name": "things/status", "kind": "Thing", "namespaced": True, "verbs": ["get"]},
                {"name": "odd", "kind": "Odd", "group": "other.example", "version": "v9", "verbs": []},
            ],
        },
        "/apis/up.example/v2": {"kind": "APIResourceList", "resources": []},
    }
    return http(200, json.dumps(documents[path]).encode()) if path in documents else None


def _discover_old(script, http, trouble):
    """What is discovered on such a server, where `trouble` is what comes for the broken group."""

    class ByPath(script):
        """Answers by path, for the order of requests is not fixed."""

        async def _serve(self, reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            answer = _answer(head.split()[1].decode(), http) or trouble
            writer.write(answer.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            await writer.drain()

    async def main():
        async with ByPath([]).serving() as config, RESTClient(config) as rest:
            return await DiscoveryClient(rest).discover()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (("503", b"down", "text/plain"), "the server is currently unable to handle the request"),
        (("503", b"down", "text/plain", 600), "the server is currently unable to handle the request"),
        (("200", b'{"resources": [{}]}'), "the answer does not describe resources"),
        (None, "broke"),
    ],
    ids=["down", "down for long", "confused", "cut"],
)
def test_group_that_is_down_does_not_hide_the_others(script, http, trouble, why):
    answer = b""
    if trouble is not None:
        retry = {"Retry_After": trouble[3]} if len(trouble) > 3 else {}
        answer = http(*trouble[:3], **retry)
    found = _discover_old(script, http, answer)
    assert [str(version) for version in found.group_versions] == ["down.example/v1", "up.example/v1", "up.example/v2"]
    ((version, text),) = found.failures
    assert str(version) == "down.example/v1"
    assert why in text
    thing, odd = found.resources
    assert (thing.resource, thing.subresources) == ("things", ("status",))
    assert (odd.group, odd.version) == ("other.example", "v9")


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _group(name, version, **more):
    entry = {"resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Namespaced", "verbs": ["get"]}
    return {"metadata": {"name": name}, "versions": [{"version": version, "resources": [entry], **more}]}


def _discover_aggregated(script, http, *groups):
    document = json.dumps({"kind": "APIGroupDiscoveryList", "items": groups}).encode()

    async def main():
        async with script([http(200, document, AGGREGATED)] * 2).serving() as config, RESTClient(config) as rest:
            return await DiscoveryClient(rest).discover()

    return asyncio.run(main())


def test_group_that_is_stale_is_used_and_named(script, http):
    stale = _group("old.example", "v1", freshness="Stale")
    found = _discover_aggregated(script, http, stale, _group("new.example", "v1", freshness="Current"))
    assert {resource.group for resource in found.resources} == {"old.example", "new.example"}
    assert {(str(version), why) for version, why in found.failures} == {
        ("old.example/v1", "the server's knowledge of it is stale")
    }


def test_answer_that_describes_nothing_is_said(script, http):
    with pytest.raises(AnswerError, match="does not describe groups and versions"):
        _discover_aggregated(script, http, {"versions": [{}]})


def test_no_request_is_left_running_when_another_one_fails():
    finished = []

    class Failing:
        async def send(self, method, path, **options):
            if path == "/apis":
                for _ in range(10):  # longer than it takes to pass the other error on
                    await asyncio.sleep(0)
                finished.append(path)
            raise ConnectionLost("reset")

    async def main():
        with pytest.raises(ConnectionLost, match="reset"):
            await DiscoveryClient(Failing()).discover()
        return list(finished)

    assert asyncio.run(main()) == ["/apis"]


def test_documents_that_are_remembered_are_few_and_small():
    discovery._kept.clear()
    for number in range(20):
        discovery._keep(b"%d" % number, [])
        assert len(discovery._kept) <= discovery._MOST_KEPT
    discovery._kept.clear()
