"""/metrics: what is counted, and that clients cannot make it grow."""

import random
import string

from api_client import CM, NS, PODS, cm, served


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
async def test_requests_are_counted_by_what_they_were(api):
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
async def test_subresources_are_told_apart(api):
    await api.get(f"{PODS}/p/log")
    samples = _samples(api, "apiserver_request_total")
    assert samples[_label(group="", version="v1", resource="pods", subresource="log", verb="get", code=404)] == 1


@served
async def test_objects_and_watchers_are_counted(api):
    await api.made(CM, cm("a"))
    await api.watch(CM)
    assert _samples(api, "apiserver_storage_objects").get('apiserver_storage_objects{resource="configmaps"}') is None
    api.metrics.observe_caches(api.catalog.hub)
    assert _samples(api, "apiserver_storage_objects")['apiserver_storage_objects{resource="configmaps"}'] == 1
    assert _samples(api, "apiserver_registered_watchers")['apiserver_registered_watchers{resource="configmaps"}'] == 1


@served
async def test_nothing_is_in_flight_when_nothing_is_going_on(api):
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
    assert len(api.metrics._series) < 100
