"""Concurrent requests that need the same conversion share one review, and conversions do not block writes."""

import asyncio

import pytest

from api_client import APPLY
from converting_api import PATIENCE, wired
from webhook_server import V1, V1BETA1, Certificates, Gate, Reply, honest, listener, path

ILL = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "I am ill"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def applied(api, name, api_version, manager, spec):
    obj = {"apiVersion": api_version, "kind": "Listener", "metadata": {"name": name}, "spec": spec}
    return api.patch(path(api_version, name), obj, APPLY, fieldManager=manager)


async def begun(webhook, *works, script=None):
    """Let requests begin that wait for a webhook; the gate and their tasks."""
    gate = webhook.script = script or Gate()
    tasks = [asyncio.ensure_future(work) for work in works]
    await webhook.until_called()
    return gate, tasks


# -- asking once --------------------------------------------------------------------------------------------------------


@wired
async def test_an_event_is_converted_once_for_all_watchers(api, webhook):
    watches = [await api.watch(path(V1BETA1)) for _ in range(20)]
    await api.listeners("a")
    for watch in watches:
        assert await watch.brief(1) == [("ADDED", "a")]
    assert [call.names for call in webhook.calls] == [["a"]]


@wired
async def test_concurrent_readers_of_an_object_share_one_conversion_review(api, webhook):
    await api.listeners("a", "b")
    gate, tasks = await begun(webhook, *(api.get(path(V1BETA1, "a")) for _ in range(20)))
    tasks.append(asyncio.ensure_future(api.get(path(V1BETA1))))
    await webhook.until_called()
    gate.opened.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}
    assert [call.names for call in webhook.calls] == [["a"], ["b"]]


@wired
async def test_readers_that_share_a_conversion_review_share_its_failure(api, webhook):
    await api.listeners("a")
    opened = asyncio.Event()

    async def ill(call):
        await opened.wait()
        return Reply(ILL, 500)

    _, tasks = await begun(webhook, *(api.get(path(V1BETA1, "a")) for _ in range(20)), script=ill)
    opened.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {500}
    assert len(webhook.calls) == 1
    webhook.script = honest
    assert (await api.get(path(V1BETA1, "a"))).status == 200


@wired
async def test_a_cancelled_conversion_review_is_sent_by_another_reader(api, webhook):
    await api.listeners("a")
    gate, (first, second) = await begun(webhook, *(api.get(path(V1BETA1, "a")) for _ in range(2)))
    first.cancel()
    gate.opened.set()
    assert (await second).status == 200
    assert len(webhook.calls) == 2


@wired
async def test_deletecollection_takes_one_conversion_review(api, webhook):
    await api.listeners("a", "b", "c")
    answer, calls = await api.calls(api.delete(path(V1BETA1)))
    assert (answer.names, calls) == (["a", "b", "c"], [["a", "b", "c"]])


# -- while others write -------------------------------------------------------------------------------------------------


@wired
async def test_objects_created_during_conversion_of_a_selection_are_selected(api, webhook):
    await api.listeners("a")
    gate, (task,) = await begun(webhook, api.get(path(V1BETA1), fieldSelector="spec.hostPort=h:1"))
    await api.listeners("b")
    gate.opened.set()
    assert (await task).names == ["a", "b"]


@wired
async def test_a_page_shows_its_revision_even_after_slow_conversion(api, webhook):
    await api.listeners("a", "b")
    token = (await api.get(path(V1), limit=1)).metadata["continue"]
    rest = api.get(path(V1BETA1), limit=5, continue_=token, fieldSelector="spec.hostPort=h:1")
    gate, (task,) = await begun(webhook, rest)
    await api.listeners("aa")
    gate.opened.set()
    assert (await task).names == ["b"]


@wired
async def test_an_existing_name_conflicts_in_every_version(api, webhook):
    await api.listeners("a")
    webhook.script = lambda call: Reply(ILL, 500)
    answer = await api.post(path(V1BETA1), listener("a", V1BETA1))
    assert answer.error[:2] == (409, "AlreadyExists")
    assert webhook.calls == []


@wired
async def test_managed_fields_of_another_version_sent_at_creation_yield_to_the_creator(api, webhook):
    entry = {"manager": "zed", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1"}
    metadata = {"managedFields": [{**entry, "fieldsV1": {"f:spec": {"f:host": {}}}}]}
    answer = await api.post(path(V1BETA1), listener("a", V1BETA1, metadata=metadata), fieldManager="x")
    assert answer.status == 201
    assert [one["manager"] for one in answer.metadata["managedFields"]] == ["x"]


# -- ownership ----------------------------------------------------------------------------------------------------------


@wired
async def test_writers_waiting_for_a_webhook_do_not_exhaust_threads(api, webhook):
    names = [f"n{index}" for index in range(40)]
    for name in names:
        await applied(api, name, V1, "one", {"host": "h", "port": 1})
    await api.get(path(V1BETA1))
    gate, tasks = await begun(webhook, *(applied(api, name, V1BETA1, "two", {"replicas": 2}) for name in names))
    await asyncio.wait_for(asyncio.to_thread(int), 5)
    assert not any(task.done() for task in tasks)
    gate.opened.set()
    assert {answer.status for answer in await asyncio.gather(*tasks)} == {200}


@wired
async def test_many_writers_do_not_block_the_name_lookup_of_the_webhook(api, webhook):
    """Names are looked up in threads; if writers waited in those, they would wait for themselves."""

    def change(spec):
        spec["conversion"]["webhook"]["clientConfig"]["url"] = f"https://localhost:{webhook.port}/convert"

    await api.redefine(change)
    names = [f"n{index}" for index in range(40)]
    for name in names:
        await applied(api, name, V1, "one", {"host": "h", "port": 1})
    await api.get(path(V1BETA1))
    await webhook.stop()
    await webhook.start()
    works = [applied(api, name, V1BETA1, "two", {"replicas": 2}) for name in names]
    answers = await asyncio.wait_for(asyncio.gather(*works), PATIENCE / 2)
    assert {answer.status for answer in answers} == {200}
