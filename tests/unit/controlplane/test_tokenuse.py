"""The label that says when the token of a Secret was last used."""

import asyncio
import datetime as dt

from api_client import NS, served
from kapi.controlplane.tokenuse import LAST_USED, MAX_WRITES, TRACKING_CONFIG, TokenUse, publish_tracking

SECRETS = f"{NS}/default/secrets"


async def _labels(api, name="t"):
    return (await api.get(f"{SECRETS}/{name}")).metadata.get("labels", {})


@served
async def test_use_is_noted_once_a_day(api):
    uses = TokenUse(api.clock)
    uses.transport = api.transport
    secret = (await api.post(SECRETS, {"metadata": {"name": "t"}})).json
    uses.note(secret)
    uses.note(secret)
    await uses.written()
    today = api.clock.now().strftime("%Y-%m-%d")
    assert await _labels(api) == {LAST_USED: today}
    before = api.revision
    uses.note((await api.get(f"{SECRETS}/t")).json)
    await uses.written()
    assert api.revision == before
    await asyncio.sleep(23 * 3600)
    await api.patch(f"{SECRETS}/t", {"metadata": {"labels": {LAST_USED: "2020-01-01"}}})
    uses.note((await api.get(f"{SECRETS}/t")).json)
    await uses.written()
    assert await _labels(api) == {LAST_USED: api.clock.now().strftime("%Y-%m-%d")}


@served
async def test_secret_that_was_replaced_is_not_labelled(api):
    uses = TokenUse(api.clock)
    uses.transport = api.transport
    old = (await api.post(SECRETS, {"metadata": {"name": "t"}})).json
    await api.delete(f"{SECRETS}/t")
    await api.post(SECRETS, {"metadata": {"name": "t"}})
    uses.note(old)
    await uses.written()
    assert await _labels(api) == {}


@served
async def test_number_of_writes_at_a_time_is_bounded(api):
    uses = TokenUse(api.clock)
    uses.transport = api.transport
    names = [f"t{number}" for number in range(MAX_WRITES + 4)]
    for secret in [(await api.post(SECRETS, {"metadata": {"name": name}})).json for name in names]:
        uses.note(secret)
    await uses.written()
    labelled = [name for name in names if await _labels(api, name)]
    assert labelled == names[:MAX_WRITES]


@served
async def test_nothing_is_written_before_there_is_a_transport(api):
    uses = TokenUse(api.clock)
    secret = (await api.post(SECRETS, {"metadata": {"name": "t"}})).json
    before = api.revision
    uses.note(secret)
    await uses.written()
    assert api.revision == before


TRACKING = f"{NS}/kube-system/configmaps/{TRACKING_CONFIG}"


@served
async def test_the_cluster_knows_since_when_the_use_of_tokens_is_noted(api):
    now = api.clock.now()
    await publish_tracking(api.transport, now)
    assert (await api.get(TRACKING)).json["data"] == {"since": now.strftime("%Y-%m-%d")}
    # A later start of a server is not a later beginning.
    await publish_tracking(api.transport, now + dt.timedelta(days=3))
    assert (await api.get(TRACKING)).json["data"] == {"since": now.strftime("%Y-%m-%d")}


@served
async def test_a_beginning_that_is_not_a_date_is_replaced(api):
    now = api.clock.now()
    await publish_tracking(api.transport, now)
    for data in ({"since": "yesterday"}, {"since": "2026-1-1"}, None):
        await api.patch(TRACKING, {"data": None})
        await api.patch(TRACKING, {"data": data})
        await publish_tracking(api.transport, now)
        assert (await api.get(TRACKING)).json["data"] == {"since": now.strftime("%Y-%m-%d")}
