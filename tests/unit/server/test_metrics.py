"""/metrics: what is counted, and that the number of series is bounded."""

import gc
import random
import string
import time
import weakref
from types import SimpleNamespace

import pytest

from api_client import CM, NS, PODS, cm, served
from kapi.server.pages import requestmetrics


def _samples(api, name):
    lines = api.metrics.render().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")}


def _series(api):
    return {line.rpartition(" ")[0] for line in api.metrics.render().decode().splitlines() if not line.startswith("#")}


def _label(**labels):
    return "apiserver_request_total{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


@served
async def test_page_is_what_scrapers_expect(api):
    answer = await api.get("/metrics")
    assert answer.status == 200
    assert answer.header("Content-Type").startswith("text/plain; version=")
    for name in (
        "apiserver_request_total",
        "apiserver_request_duration_seconds_bucket",
        "apiserver_current_inflight_requests",
    ):
        assert name in answer.text


@served
async def test_requests_are_counted_by_verb_resource_and_code(api):
    await api.made(CM, cm("a"))
    await api.get(f"{CM}/a")
    await api.get(f"{CM}/b")
    await api.get(CM)
    samples = _samples(api, "apiserver_request_total")
    common = {"group": "", "version": "v1", "resource": "configmaps", "subresource": ""}
    assert samples[_label(**common, verb="create", code=201)] == 1
    assert samples[_label(**common, verb="get", code=200)] == 1
    assert samples[_label(**common, verb="get", code=404)] == 1
    assert samples[_label(**common, verb="list", code=200)] == 1


@served
async def test_subresources_have_separate_series(api):
    await api.get(f"{PODS}/p/log")
    samples = _samples(api, "apiserver_request_total")
    assert samples[_label(group="", version="v1", resource="pods", subresource="log", verb="get", code=404)] == 1


@served
async def test_objects_and_watchers_are_counted(api):
    await api.made(CM, cm("a"))
    await api.watch(CM)
    assert _samples(api, "apiserver_storage_objects").get('apiserver_storage_objects{resource="configmaps"}') is None
    api.metrics.observe(api.catalog, api.health)
    assert _samples(api, "apiserver_storage_objects")['apiserver_storage_objects{resource="configmaps"}'] == 1
    assert _samples(api, "apiserver_registered_watchers")['apiserver_registered_watchers{resource="configmaps"}'] == 1


@served
async def test_no_requests_are_in_flight_on_an_idle_server(api):
    await api.made(CM, cm("a"))
    await api.post(CM, cm("a"))
    assert set(_samples(api, "apiserver_current_inflight_requests").values()) == {0.0}


@served
async def test_clients_cannot_add_series(api):
    chance = random.Random(7)

    def word():
        return "".join(chance.choices(string.ascii_lowercase, k=8))

    async def storm(count):
        for _ in range(count):
            for path in (
                f"/{word()}",
                f"/apis/{word()}/{word()}/{word()}",
                f"/api/v1/{word()}",
                f"{NS}/{word()}/{word()}",
                f"{CM}/{word()}",
                f"{CM}/{word()}/{word()}",
                f"{PODS}/{word()}/{word()}/{word()}",
                f"/openapi/v3/{word()}",
                f"/healthz/{word()}",
            ):
                await api.get(path)
            await api.request(word().upper(), f"{CM}/{word()}")
            await api.request(word().upper(), f"/{word()}")

    await storm(5)
    before = _series(api)
    await storm(100)
    assert _series(api) == before
    assert len(api.metrics.requests.series) < 100


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def _definition(**spec):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
            **spec,
        },
    }


@served
async def test_metrics_do_not_keep_replaced_definitions_alive(api):
    await api.made(DEFINITIONS, _definition())
    replaced = []
    for number in range(5):
        await api.get(THINGS)
        replaced.append(weakref.ref(api.catalog.find("example.com", "v1", "things")))
        names = {"plural": "things", "kind": "Thing", "shortNames": [f"t{number}"]}
        patch = {"spec": {"names": names}}
        assert (await api.patch(f"{DEFINITIONS}/things.example.com", patch)).status == 200
    gc.collect()
    assert [one() for one in replaced] == [None] * 5


@served
async def test_series_are_dropped_with_their_definition(api):
    api.metrics.observe(api.catalog, api.health)
    before = len(api.metrics.requests.series)
    await api.made(DEFINITIONS, _definition())
    watch = await api.watch(THINGS)
    await api.get(THINGS)
    assert 'resource="things"' in api.metrics.render().decode()
    await api.delete(f"{DEFINITIONS}/things.example.com")
    await watch.rest()
    assert 'resource="things"' not in api.metrics.render().decode()
    assert len(api.metrics.requests.series) <= before + 5


@served
async def test_number_of_series_is_bounded(api):
    limit = len(api.metrics.requests.series) + 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requestmetrics, "MAX_SERIES", limit)
        for resource in ("pods", "secrets", "services", "endpoints", "events", "configmaps"):
            await api.get(f"{NS}/default/{resource}")
    assert len(api.metrics.requests.series) == limit
    counted = _samples(api, "apiserver_request_total")
    assert counted[_label(verb="list", group="", version="", resource="", subresource="", code=200)] == 3


@served
async def test_a_long_page_is_made_off_the_event_loop(api):
    for number in range(800):
        resource = SimpleNamespace(group="example.com", version="v1", resource=f"r{number}")
        mutating = api.metrics.requests.begin("GET")
        api.metrics.requests.end("get", resource, "", 200, 0.01, mutating=mutating)
    began = time.thread_time()
    whole = api.metrics.render()
    rendering = time.thread_time() - began
    answer = await api.get("/metrics")
    assert answer.status == 200
    assert len(answer.raw) > len(whole) / 2
    # The least of a few, so that a collection of garbage in between does not count.
    assert min([await _held_by_page(api) for _ in range(3)]) < rendering / 2


async def _held_by_page(api):
    """CPU of the event loop's thread while the page is made."""
    began = time.thread_time()
    await api.metrics.page()
    return time.thread_time() - began
