"""ResourceQuota: concurrent clients never exceed a quota, cost few commits, and what fails is given back."""

import asyncio
import contextlib

import pytest

from api_client import CM, NS, PODS, Api, SlowStorage, cm, pod, served
from controller_api import running_controllers
from custom_kinds import CRDS, WIDGETS, definition, widget
from kapi.controlplane.controllers.resourcequota.controller import add_resourcequota_controller
from kapi.registry.quota.charges import Charges
from kapi.storage.interface import RevisionMismatch
from kapi.storage.memory import MemoryStorage
from shared_cluster import Cluster, SharedStorage
from virtual_time import run

QUOTAS = f"{NS}/default/resourcequotas"
CLIENTS = 64


async def limit(api, hard, name="q", used=None, **spec):
    """Create a quota, and write its status as the controller would."""
    made = await api.made(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    made["status"] = {"hard": hard, "used": used or dict.fromkeys(hard, "0")}
    answer = await api.put(f"{QUOTAS}/{name}/status", made)
    assert answer.status == 200, answer


async def used(api, name="q"):
    return (await api.get(f"{QUOTAS}/{name}"))["status"]["used"]


async def create_all(apis, count, path=CM, made=cm):
    """Create objects at the same time; the answers by status."""
    answers = await asyncio.gather(*(apis[n % len(apis)].post(path, made(f"o{n}")) for n in range(count)))
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {201, 403, 409}, answers
    return {status: statuses.count(status) for status in set(statuses)}


# -- never more than the quota ----------------------------------------------------------------------------------------


@served(storage=SlowStorage)
async def test_concurrent_clients_get_exactly_what_the_quota_allows_in_few_commits(api):
    await limit(api, {"count/configmaps": "40"})
    charges = []
    api.catalog.store("resourcequotas").cache.listen(charges.extend)
    before = api.revision
    assert await create_all([api], CLIENTS) == {201: 40, 403: CLIENTS - 40}
    assert await used(api) == {"count/configmaps": "40"}
    # All were waiting when the first was decided.
    assert len(charges) <= 3
    assert api.revision - before == 40 + len(charges)


class Blind(MemoryStorage):
    """The planted bug: the usage of a quota is written without a comparison."""

    async def commit(self, operations):
        entries = [await self.get(one.key) for one in operations]
        pairs = zip(operations, entries, strict=True)
        return await super().commit(
            [
                one._replace(expected=entry.revision) if entry and "/resourcequotas/" in one.key else one
                for one, entry in pairs
            ]
        )


@contextlib.asynccontextmanager
async def two_servers(store):
    cluster = Cluster(store)
    apis = [Api(SharedStorage(cluster, lag=1.0, seed=seed)) for seed in (1, 2)]
    try:
        for api in apis:
            await api.start()
        yield apis
    finally:
        for api in apis:
            await api.stop()


async def _created_by_two(store):
    async with two_servers(store) as apis:
        await limit(apis[0], {"count/configmaps": "20"})
        await asyncio.sleep(10)
        counts = await create_all(apis, CLIENTS)
        await asyncio.sleep(10)
        assert counts[201] == len((await apis[1].get(CM))["items"])
        return counts[201], int((await used(apis[1]))["count/configmaps"])


def test_clients_of_two_servers_never_exceed_a_quota():
    async def main():
        created, charged = await _created_by_two(MemoryStorage())
        assert 0 < created <= charged <= 20

    run(main())


def test_without_the_comparison_clients_of_two_servers_exceed_a_quota():
    async def main():
        created, _ = await _created_by_two(Blind())
        assert created > 20

    run(main())


async def _create_and_delete(api, rounds):
    """Keep many clients busy with objects of their own; the largest number of objects there ever was."""
    cache = api.catalog.store("configmaps").cache
    prefix = f"{cache.prefix}default/"
    largest = 0

    def count(_events):
        nonlocal largest
        largest = max(largest, cache.count(prefix))

    cache.listen(count)

    async def client(number):
        for turn in range(rounds):
            name = f"c{number}-{turn}"
            if (await api.post(CM, cm(name))).status == 201:
                assert (await api.delete(f"{CM}/{name}")).status == 200

    await asyncio.gather(*map(client, range(CLIENTS // 2)))
    return largest


class SlowObjects(MemoryStorage):
    """A store in which a ConfigMap takes longer to be committed than a controller to count."""

    async def put(self, key, draft, expected, note=None):
        if "/configmaps/" in key:
            await asyncio.sleep(0.1)
        return await super().put(key, draft, expected, note)


async def _largest_number_with_a_controller():
    async with running_controllers(add_resourcequota_controller, storage=SlowObjects()) as api:
        await api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "5"}}})
        await api.run_until_idle()
        largest = await _create_and_delete(api, 10)
        await api.run_until_idle()
        assert await used(api) == {"count/configmaps": "0"}
        return largest


def test_the_controller_that_counts_does_not_free_what_is_being_created():
    assert run(_largest_number_with_a_controller()) == 5


def test_a_controller_that_does_not_know_of_charges_frees_what_is_being_created(monkeypatch):
    monkeypatch.setattr(Charges, "pending", lambda *_: [])
    assert run(_largest_number_with_a_controller()) > 5


# -- what is given back -----------------------------------------------------------------------------------------------


@served
async def test_a_create_that_fails_after_the_charge_is_given_back(api):
    await limit(api, {"count/configmaps": "5"})
    await api.made(CM, cm("a"))
    assert (await api.post(CM, cm("a"))).status == 409
    await asyncio.sleep(1)
    assert await used(api) == {"count/configmaps": "1"}


class Failing(MemoryStorage):
    """A store that refuses ConfigMaps once."""

    fails = False

    async def put(self, key, draft, expected, note=None):
        if self.fails and "/configmaps/" in key:
            self.fails = False
            raise RevisionMismatch(key, expected, 1)
        return await super().put(key, draft, expected, note)


@served(storage=Failing)
async def test_an_update_that_is_decided_again_is_charged_once(api):
    await limit(api, {"services.nodeports": "3"})
    services = f"{NS}/default/services"
    await api.made(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})

    async def patch(label):
        body = {"metadata": {"labels": {label: "x"}}, "spec": {"type": "NodePort"}}
        return (await api.patch(f"{services}/s", body)).status

    assert await asyncio.gather(patch("a"), patch("b")) == [200, 200]
    await asyncio.sleep(1)
    assert await used(api) == {"services.nodeports": "1"}


@served(storage=Failing)
async def test_a_commit_that_loses_a_race_is_given_back(api):
    await limit(api, {"count/configmaps": "5"})
    api.storage.fails = True
    assert (await api.post(CM, cm("a"))).status == 409
    await asyncio.sleep(1)
    assert await used(api) == {"count/configmaps": "0"}


class Stalling(MemoryStorage):
    """A store whose commits of quotas, or of ConfigMaps, wait until they may."""

    def __init__(self):
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()
        self.stalled = asyncio.Event()

    async def commit(self, operations):
        await self._wait(operations[0].key, "/resourcequotas/")
        return await super().commit(operations)

    async def put(self, key, draft, expected, note=None):
        await self._wait(key, "/configmaps/")
        return await super().put(key, draft, expected, note)

    async def _wait(self, key, part):
        if part in key and not self.free.is_set():
            self.stalled.set()
            await self.free.wait()


async def _abandon(api, storage):
    """Send a creation, cancel it while its commit waits, and let the commit go on."""
    storage.free.clear()
    request = asyncio.ensure_future(api.post(CM, cm("a")))
    await storage.stalled.wait()
    request.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await request
    storage.free.set()
    await asyncio.sleep(1)


@pytest.mark.parametrize("at", ["charge", "object"])
def test_a_client_that_gives_up_leaves_usage_and_objects_equal(at):
    async def main():
        storage = Stalling()
        api = Api(storage)
        await api.start()
        try:
            await limit(api, {"count/configmaps": "5"})
            if at == "object":
                storage.commit = super(Stalling, storage).commit
            else:
                storage.put = super(Stalling, storage).put
            await _abandon(api, storage)
            there = len((await api.get(CM))["items"])
            assert there == (1 if at == "object" else 0)
            assert await used(api) == {"count/configmaps": str(there)}
        finally:
            await api.stop()

    run(main())


# -- what is charged --------------------------------------------------------------------------------------------------


@served
async def test_a_dry_run_charges_nothing(api):
    await limit(api, {"count/configmaps": "1"})
    for _ in range(3):
        assert (await api.post(CM, cm("a"), dryRun="All")).status == 201
    assert await used(api) == {"count/configmaps": "0"}


@served
async def test_objects_of_custom_kinds_are_counted(api):
    await api.made(CRDS, definition())
    await limit(api, {"count/widgets.example.com": "1"})
    await api.made(WIDGETS, widget("a"))
    refused = await api.post(WIDGETS, widget("b"))
    assert refused.status == 403
    assert "exceeded quota: q, requested: count/widgets.example.com=1" in refused.message


@served
async def test_server_side_apply_and_put_that_create_are_charged(api):
    await limit(api, {"count/configmaps": "1"})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    content = "application/apply-patch+yaml"
    assert (await api.patch(f"{CM}/a", body, content, fieldManager="m")).status == 201
    body["metadata"]["name"] = "b"
    assert (await api.patch(f"{CM}/b", body, content, fieldManager="m")).status == 403


@served
async def test_events_are_never_charged(api):
    await limit(api, {"count/events": "0"})
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "r"}
    assert (await api.post(f"{NS}/default/events", event)).status == 201


@pytest.mark.plain(reason="replaces generate_name")
@served
async def test_a_name_is_generated_again_without_a_second_charge(api, monkeypatch):
    names = iter(["gen-1", "gen-1", "gen-2"])
    monkeypatch.setattr("kapi.registry.write.generate_name", lambda _prefix: next(names))
    await limit(api, {"count/configmaps": "5"})
    generated = {"metadata": {"generateName": "gen-"}}
    assert [(await api.post(CM, generated)).metadata["name"] for _ in range(2)] == ["gen-1", "gen-2"]
    await asyncio.sleep(1)
    assert await used(api) == {"count/configmaps": "2"}


@served
async def test_a_quota_of_another_namespace_has_no_effect(api):
    await api.made(NS, {"metadata": {"name": "other"}})
    await limit(api, {"count/pods": "0"})
    assert (await api.post(PODS, pod())).status == 403
    assert (await api.post(f"{NS}/other/pods", pod())).status == 201


@served
async def test_a_deleted_quota_limits_nothing(api):
    await limit(api, {"count/pods": "0"})
    assert (await api.post(PODS, pod())).status == 403
    assert (await api.delete(f"{QUOTAS}/q")).status == 200
    assert (await api.post(PODS, pod())).status == 201


@served
async def test_a_resize_is_charged_with_the_difference(api):
    def sized(cpu):
        made = pod()
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        return made

    await limit(api, {"requests.cpu": "500m"})
    await api.made(PODS, sized("200m"))
    container = {"name": "c", "resources": {"requests": {"cpu": "400m"}}}
    content = "application/strategic-merge-patch+json"
    answer = await api.patch(f"{PODS}/p/resize", {"spec": {"containers": [container]}}, content)
    assert answer.status == 200, answer
    assert await used(api) == {"requests.cpu": "400m"}
    container["resources"]["requests"]["cpu"] = "600m"
    answer = await api.patch(f"{PODS}/p/resize", {"spec": {"containers": [container]}}, content)
    assert answer.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=400m, '
        "limited: requests.cpu=500m"
    )


@served
async def test_a_decision_that_takes_too_long_is_an_internal_error(api):
    await limit(api, {"count/configmaps": "5"})
    async with api.catalog.charges.lock("default"):
        answer = await api.post(CM, cm("a"))
        assert answer.error == (500, "InternalError", "Internal error occurred: resource quota evaluation timed out")
    await asyncio.sleep(1)
    assert await used(api) == {"count/configmaps": "0"}


@served
async def test_a_quota_of_very_many_limits_is_enforced_too(api):
    many = {f"count/kind{number}.example.com": "5" for number in range(1000)}
    await limit(api, {"count/configmaps": "2", **many})
    assert await create_all([api], 4) == {201: 2, 403: 2}
    assert (await used(api))["count/configmaps"] == "2"
