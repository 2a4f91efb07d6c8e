"""What people call a resource, and which one they mean."""

import asyncio

import pytest

from kapi.api.meta import GroupVersionKind
from kapi.client import APIResource, NoMatch, RESTMapper
from kapi.client.discovery import Discovered, DiscoveryClient
from kapi.client.rest import RESTClient


def _resource(name, kind, group="", version="v1", **more):
    more = {"singular": kind.lower(), **more}
    return APIResource(group, version, name, kind, namespaced=True, **more)


PODS = _resource("pods", "Pod", short_names=("po",), categories=("all",))
EVENTS = _resource("events", "Event", short_names=("ev",))
NEW_EVENTS = _resource("events", "Event", "events.k8s.io")
DEPLOYMENTS = _resource("deployments", "Deployment", "apps", short_names=("deploy",), categories=("all",))
OLD_DEPLOYMENTS = _resource(
    "deployments", "Deployment", "apps", "v1beta1", short_names=("deploy",), categories=("all",)
)
# Somebody's resource takes the name of a pod as its short one, and a kind of another name than its plural.
PODCASTS = _resource("podcasts", "AudioPodcast", "radio.example.com", singular="", short_names=("pods", "pc"))
ALL = (PODS, EVENTS, DEPLOYMENTS, OLD_DEPLOYMENTS, NEW_EVENTS, PODCASTS)


class Growing(DiscoveryClient):
    """A server that serves the next of `states` each time it is asked."""

    def __init__(self, *states):
        super().__init__(None)
        self.states = list(states)
        self.asked = 0

    async def discover(self):
        if self._known is None:
            self.asked += 1
            self._known = Discovered(self.states.pop(0), ())
        return self._known


def _by_name(name, resources=ALL):
    return asyncio.run(RESTMapper(Growing(resources)).by_name(name))


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", PODS),
        ("pod", PODS),
        ("po", PODS),
        ("Pod", PODS),
        ("PODS", PODS),
        ("pods.v1.", PODS),
        ("deploy", DEPLOYMENTS),
        ("deployments.apps", DEPLOYMENTS),
        ("deployments.v1.apps", DEPLOYMENTS),
        ("deployments.v1beta1.apps", OLD_DEPLOYMENTS),
        ("Deployment.apps", DEPLOYMENTS),
        ("Deployment.v1beta1.apps", OLD_DEPLOYMENTS),
        ("events", EVENTS),
        ("events.events.k8s.io", NEW_EVENTS),
        ("podcasts.radio.example.com", PODCASTS),
        ("podcasts.v1.radio.example.com", PODCASTS),
        ("audiopodcast", PODCASTS),
        ("pods.radio.example.com", PODCASTS),
        ("pc", PODCASTS),
    ],
)
def test_name_finds_its_resource(name, resource):
    assert _by_name(name) == resource


@pytest.mark.parametrize("name", ["foos", "PO", "deployments.batch", "deployments.v2.apps", "", "."])
def test_name_that_is_nobodys_finds_nothing(name):
    with pytest.raises(NoMatch) as raised:
        _by_name(name)
    assert str(raised.value) == f'the server doesn\'t have a resource type "{name.split(".")[0]}"'


def test_kind_must_match_to_the_letter():
    async def find(*gvk):
        return await RESTMapper(Growing(ALL)).by_kind(GroupVersionKind(*gvk))

    assert asyncio.run(find("apps", "v1beta1", "Deployment")) == OLD_DEPLOYMENTS
    with pytest.raises(NoMatch, match='no matches for kind "deployment" in version "apps/v1"'):
        asyncio.run(find("apps", "v1", "deployment"))
    with pytest.raises(NoMatch, match='no matches for kind "Pod" in version "v2"'):
        asyncio.run(find("", "v2", "Pod"))


def test_category_has_each_resource_once_in_its_preferred_version():
    mapper = RESTMapper(Growing(ALL))
    assert asyncio.run(mapper.by_category("all")) == [PODS, DEPLOYMENTS]
    assert asyncio.run(mapper.by_category("none")) == []


def test_missing_name_is_looked_for_once_more():
    async def main():
        discovery = Growing((EVENTS,), (EVENTS, PODS), (EVENTS, PODS))
        mapper = RESTMapper(discovery)
        assert await mapper.by_name("events") == EVENTS
        assert discovery.asked == 1
        assert await mapper.by_name("pods") == PODS
        assert discovery.asked == 2
        with pytest.raises(NoMatch):
            await mapper.by_name("foos")
        return discovery.asked

    assert asyncio.run(main()) == 3


def test_fresh_answer_is_believed_at_once():
    async def main():
        discovery = Growing(ALL)
        with pytest.raises(NoMatch):
            await RESTMapper(discovery).by_name("foos")
        return discovery.asked

    assert asyncio.run(main()) == 1


def test_real_server_answers_to_all_names(admin):
    async def main():
        async with RESTClient(admin) as rest:
            mapper = RESTMapper(DiscoveryClient(rest))
            names = ("po", "deploy", "events", "ns", "StatefulSet", "hpa")
            return [str((await mapper.by_name(name)).gvr.group_resource) for name in names]

    assert asyncio.run(main()) == [
        "pods",
        "deployments.apps",
        "events",
        "namespaces",
        "statefulsets.apps",
        "horizontalpodautoscalers.autoscaling",
    ]
