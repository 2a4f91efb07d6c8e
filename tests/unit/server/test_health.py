"""/healthz, /livez and /readyz: single checks, excluded checks, failures, and the metrics of their results."""

import pytest

from api_client import served
from kapi.api.errors import PageNotFound
from kapi.server.pages.health import Health


def _health(**reasons):
    health = Health()
    for name, reason in reasons.items():
        health.add(name, lambda reason=reason: reason, readiness_only=name.startswith("ready"))
    return health


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
@served
async def test_healthy_server_answers_ok(api, path):
    answer = await api.get(path)
    assert (answer.status, answer.raw) == (200, b"ok")
    assert answer.header("Content-Type") == "text/plain; charset=utf-8"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert (await api.request("POST", path)).status == 200


@pytest.mark.parametrize("query", ["verbose", "verbose=", "verbose=1", "x=1&verbose"])
def test_verbose_names_the_checks(query):
    response = _health(storage=None).answer("/livez", query)
    assert response.body == b"[+]ping ok\n[+]log ok\n[+]storage ok\nlivez check passed\n"


def test_reason_of_a_failure_is_withheld():
    response = _health(storage="the disk is on fire").answer("/readyz", "")
    assert response.status == 500
    assert response.body == b"[+]ping ok\n[+]log ok\n[-]storage failed: reason withheld\nreadyz check failed\n"
    assert b"fire" not in response.body


def test_check_can_be_excluded():
    health = _health(storage="broken", other=None)
    response = health.answer("/livez", "exclude=storage&verbose")
    assert (response.status, response.body) == (
        200,
        b"[+]ping ok\n[+]log ok\n[+]storage excluded: ok\n[+]other ok\nlivez check passed\n",
    )
    assert health.answer("/livez", "exclude=storage&exclude=other").body == b"ok"
    assert health.answer("/livez", "exclude=other").status == 500


def test_excluding_an_unknown_check_is_a_warning():
    health = _health()
    assert health.answer("/livez", "exclude=nope").body == b"ok"
    response = health.answer("/livez", "exclude=nope&verbose")
    assert b'warn: some health checks cannot be excluded: no matches for "nope"\n' in response.body


def test_one_check_can_be_requested():
    health = _health(storage="broken", fine=None)
    assert health.answer("/livez/fine", "").body == b"ok"
    response = health.answer("/livez/storage", "")
    assert (response.status, response.body) == (500, b"internal server error: broken\n")


@pytest.mark.parametrize("path", ["/livez/nope", "/livez/", "/healthz/", "/readyz/ping/x"])
def test_unknown_check_is_not_found(path):
    with pytest.raises(PageNotFound):
        _health().answer(path, "")


def test_some_checks_are_about_readiness_only():
    health = _health(ready_soon="not yet")
    assert health.answer("/livez", "").status == 200
    assert health.answer("/healthz", "").status == 200
    assert health.answer("/readyz", "").status == 500
    assert not health.ready
    assert "/readyz/ready_soon" in list(health.paths())
    assert "/livez/ready_soon" not in list(health.paths())


@served
async def test_failed_store_makes_the_server_unhealthy(api):
    api.health.add("etcd", lambda: "gone")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await api.get(path)).status == 500
    condition = (await api.get("/api/v1/componentstatuses/etcd-0"))["conditions"][0]
    assert (condition["status"], condition["message"]) == ("False", "gone")


def test_names_of_checks_are_percent_decoded():
    health = Health()
    health.add_hook("a/b")
    assert health.answer("/livez", "exclude=poststarthook%2Fa%2Fb").status == 200


def test_hook_fails_until_it_is_done():
    health = Health()
    hook = health.add_hook("bootstrap-controller")
    response = health.answer("/healthz/poststarthook/bootstrap-controller", "")
    assert (response.status, response.body) == (500, b"internal server error: not finished\n")
    hook.done = True
    assert health.answer("/healthz", "verbose").body == (
        b"[+]ping ok\n[+]log ok\n[+]poststarthook/bootstrap-controller ok\nhealthz check passed\n"
    )


@served
async def test_results_of_checks_are_metrics(api):
    api.metrics.observe(api.catalog, api.health)
    api.health.add("etcd", lambda: "gone")
    await api.get("/livez")
    await api.get("/readyz", exclude="etcd")
    await api.get("/livez/etcd")
    answer = await api.get("/metrics/slis")
    assert answer.header("Content-Type").startswith("text/plain; version=")
    assert answer.text.splitlines() == [
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
        "# TYPE kubernetes_healthcheck gauge",
        'kubernetes_healthcheck{name="etcd",type="livez"} 0.0',
        'kubernetes_healthcheck{name="log",type="livez"} 1.0',
        'kubernetes_healthcheck{name="log",type="readyz"} 1.0',
        'kubernetes_healthcheck{name="ping",type="livez"} 1.0',
        'kubernetes_healthcheck{name="ping",type="readyz"} 1.0',
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
        "# TYPE kubernetes_healthchecks_total counter",
        'kubernetes_healthchecks_total{name="etcd",status="error",type="livez"} 1.0',
        'kubernetes_healthchecks_total{name="log",status="success",type="livez"} 1.0',
        'kubernetes_healthchecks_total{name="log",status="success",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 1.0',
    ]
