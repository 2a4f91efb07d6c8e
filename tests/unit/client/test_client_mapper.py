"""What people call a resource, and which one they mean."""

import asyncio

import pytest

from kapi.api.meta import GroupVersion, GroupVersionKind, GroupVersionResource
from kapi.client import APIResource, NoMatch, RESTMapper
from kapi.client.discovery import Discovered, DiscoveryClient
from kapi.client.mapper import REFRESH_BURST
from kapi.client.rest import RESTClient
from virtual_time import LoopClock, run


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
# A custom resource takes the name of a pod as its short one, and a kind of another name than its plural.
PODCASTS = _resource("podcasts", "AudioPodcast", "radio.example.com", singular="", short_names=("pods", "pc"))
ALL = (PODS, EVENTS, DEPLOYMENTS, OLD_DEPLOYMENTS, NEW_EVENTS, PODCASTS)


class Growing(DiscoveryClient):
    """A server that serves the next of `states` each time it is asked, and the last of them for ever."""

    def __init__(self, *states, failures=(), clock=None):
        super().__init__(None, clock=clock)
        self.states = list(states)
        self.failures = failures
        self.asked = 0

    async def discover(self):
        if self._known is None:
            self.asked += 1
            self.rounds += 1
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            self._known = Discovered(state, (), self.failures)
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
def test_an_unknown_name_finds_nothing(name):
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


def test_resource_must_match_to_the_letter():
    async def find(*gvr):
        return await RESTMapper(Growing(ALL)).by_resource(GroupVersionResource(*gvr))

    assert asyncio.run(find("apps", "v1", "deployments")) == DEPLOYMENTS
    with pytest.raises(NoMatch, match='no matches for resource "deployment" in version "apps/v1"'):
        asyncio.run(find("apps", "v1", "deployment"))


def test_missing_name_is_looked_for_once_more():
    async def main():
        discovery = Growing((EVENTS,), (EVENTS, PODS), clock=LoopClock())
        mapper = RESTMapper(discovery)
        assert await mapper.by_name("events") == EVENTS
        assert discovery.asked == 1
        assert await mapper.by_name("pods") == PODS
        assert discovery.asked == 2
        with pytest.raises(NoMatch):
            await mapper.by_name("foos")
        return discovery.asked

    assert run(main()) == 3


def test_what_was_just_added_is_found_though_it_was_just_missed():
    async def main():
        discovery = Growing((), (), (PODS,), clock=LoopClock())
        mapper = RESTMapper(discovery)
        for _ in range(2):
            with pytest.raises(NoMatch):
                await mapper.by_kind(PODS.gvk)
        return await mapper.by_kind(PODS.gvk)

    assert run(main()) == PODS


def test_asking_for_what_is_not_there_does_not_keep_the_server_busy():
    async def main():
        discovery = Growing(ALL, clock=LoopClock())
        mapper = RESTMapper(discovery, refresh_seconds=10)
        await mapper.by_name("pods")
        started = asyncio.get_running_loop().time()
        for _ in range(6):
            missed = await asyncio.gather(*(mapper.by_name("foos") for _ in range(50)), return_exceptions=True)
            assert {type(error) for error in missed} == {NoMatch}
        return discovery.asked, asyncio.get_running_loop().time() - started

    asked, took = run(main())
    # The first discovery, three at once, and then one every ten seconds: 300 questions are far fewer requests.
    assert asked == 1 + REFRESH_BURST + took / 10
    assert asked < 15


def test_fresh_answer_is_believed_at_once():
    async def main():
        discovery = Growing(ALL, clock=LoopClock())
        with pytest.raises(NoMatch):
            await RESTMapper(discovery).by_name("foos")
        return discovery.asked

    assert run(main()) == 1


def test_version_that_could_not_be_described_is_the_reason():
    async def main():
        down = (GroupVersion("metrics.example.com", "v1"), "the server is currently unable to handle the request")
        mapper = RESTMapper(Growing(ALL, failures=(down,), clock=LoopClock()))
        with pytest.raises(NoMatch, match=r"could not say what metrics\.example\.com/v1 has: the server is currently"):
            await mapper.by_kind(GroupVersionKind("metrics.example.com", "v1", "PodMetrics"))

    run(main())


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
