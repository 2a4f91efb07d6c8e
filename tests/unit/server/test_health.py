"""/healthz, /livez and /readyz: what is asked, what is left out, and what is told when something is wrong."""

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
async def test_all_is_well(api, path):
    answer = await api.get(path)
    assert (answer.status, answer.raw) == (200, b"ok")
    assert answer.header("Content-Type") == "text/plain; charset=utf-8"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert (await api.request("POST", path)).status == 200


@pytest.mark.parametrize("query", ["verbose", "verbose=", "verbose=1", "x=1&verbose"])
def test_verbose_names_the_checks(query):
    response = _health(storage=None).answer("/livez", query)
    assert response.body == b"[+]ping ok\n[+]storage ok\nlivez check passed\n"


def test_failure_is_told_without_its_reason():
    response = _health(storage="the disk is on fire").answer("/readyz", "")
    assert response.status == 500
    assert response.body == b"[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n"
    assert b"fire" not in response.body


def test_check_can_be_left_out():
    health = _health(storage="broken", other=None)
    response = health.answer("/livez", "exclude=storage&verbose")
    assert (response.status, response.body) == (
        200,
        b"[+]ping ok\n[+]storage excluded: ok\n[+]other ok\nlivez check passed\n",
    )
    assert health.answer("/livez", "exclude=storage&exclude=other").body == b"ok"
    assert health.answer("/livez", "exclude=other").status == 500


def test_leaving_out_what_is_not_there_is_only_mentioned():
    health = _health()
    assert health.answer("/livez", "exclude=nope").body == b"ok"
    response = health.answer("/livez", "exclude=nope&verbose")
    assert b'warn: some health checks cannot be excluded: no matches for "nope"\n' in response.body


def test_one_check_can_be_asked_for():
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
async def test_storage_that_fails_makes_the_server_unwell(api):
    api.health.add("storage", lambda: "gone")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await api.get(path)).status == 500
    condition = (await api.get("/api/v1/componentstatuses/storage"))["conditions"][0]
    assert (condition["status"], condition["message"]) == ("False", "gone")
