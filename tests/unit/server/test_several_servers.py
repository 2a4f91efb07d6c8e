"""Several servers on one store, each with a memory of its own: names, addresses and ports stay unique."""

import asyncio
import contextlib
import random

import pytest

from api_client import Api
from custom_kinds import CRDS, INTEGER, WIDGET_CRD, WIDGETS, definition, record, widget
from kapi.storage.interface import Check, Put, RevisionMismatch
from kapi.storage.memory import MemoryStorage
from shared_cluster import Cluster, SharedStorage
from virtual_time import run

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


@contextlib.asynccontextmanager
async def servers(*storages):
    apis = []
    try:
        for storage in storages:
            apis.append(Api(storage))
            await apis[-1].start()
        yield apis
    finally:
        for api in apis:
            await api.stop()


def two_on(store):
    cluster = Cluster(store)
    return SharedStorage(cluster, lag=1.0, seed=1), SharedStorage(cluster, lag=1.0, seed=2)


class Blind(MemoryStorage):
    """The planted bug: what is committed together with an object is not compared."""

    async def commit(self, operations):
        first, *others = operations
        found = [(one, await self.get(one.key)) for one in others]
        blind = [one._replace(expected=entry.revision if entry else 0) for one, entry in found]
        return await super().commit([first, *(one for one in blind if isinstance(one, Check | Put) or one.expected)])


async def _create_services(apis, count):
    """Services of all servers at once; most let the server choose, some name what others may name too."""
    dice = random.Random(7)

    async def create(api, number):
        spec = {"type": dice.choice(["ClusterIP", "NodePort", "LoadBalancer"]), "ports": [{"port": 80}]}
        if dice.random() < 0.3:
            spec["clusterIP"] = f"10.0.0.{dice.randrange(2, 12)}"
        if dice.random() < 0.3 and spec["type"] != "ClusterIP":
            spec["ports"][0]["nodePort"] = dice.randrange(30000, 30010)
        if spec["type"] == "LoadBalancer":
            spec["externalTrafficPolicy"] = "Local"
        answer = await api.post(SERVICES, {"metadata": {"name": f"s{number}"}, "spec": spec})
        assert answer.status in (201, 422), answer
        return answer

    return await asyncio.gather(*(create(apis[number % len(apis)], number) for number in range(count)))


async def _held(api):
    """The addresses and the node ports of all Services, each as often as it is held."""
    addresses, ports = [], []
    for service in (await api.get(SERVICES))["items"]:
        spec = service["spec"]
        addresses += spec["clusterIPs"]
        ports += [port["nodePort"] for port in spec["ports"] if "nodePort" in port]
        ports += [spec["healthCheckNodePort"]] if "healthCheckNodePort" in spec else []
    return addresses, ports


def _is_unique(values):
    return len(values) == len(set(values))


def test_two_servers_never_give_out_an_address_or_a_port_twice():
    async def main():
        storages = two_on(MemoryStorage())
        async with servers(*storages) as apis:
            answers = await _create_services(apis, 120)
            await asyncio.sleep(10)
            addresses, ports = await _held(apis[0])
            assert _is_unique(addresses)
            assert _is_unique(ports)
            assert sorted(addresses) == sorted(
                item["metadata"]["name"] for item in (await apis[0].get(ADDRESSES))["items"]
            )
            assert {answer.status for answer in answers} == {201, 422}
            assert sum(storage.lost for storage in storages) > 0, "no two writes collided, so nothing was shown"
            for index, answer in enumerate(answers):
                if answer.status == 201:
                    assert (await apis[index % 2].delete(f"{SERVICES}/s{index}")).status == 200
            await asyncio.sleep(10)
            assert [item["metadata"]["name"] for item in (await apis[1].get(ADDRESSES))["items"]] == ["10.0.0.1"]
            assert not len(apis[1].catalog.hub.cache("/registry/reservations/nodeports/"))

    run(main())


def test_without_the_comparison_two_servers_give_out_the_same():
    async def main():
        async with servers(*two_on(Blind())) as apis:
            await _create_services(apis, 120)
            await asyncio.sleep(10)
            addresses, ports = await _held(apis[0])
            assert not _is_unique(addresses)
            assert not _is_unique(ports)

    run(main())


def test_a_service_that_two_servers_create_exists_once_and_leaks_nothing():
    async def main():
        async with servers(*two_on(MemoryStorage())) as apis:
            body = {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
            answers = await asyncio.gather(*(api.post(SERVICES, body) for api in apis))
            assert sorted(answer.status for answer in answers) == [201, 409]
            await asyncio.sleep(10)
            assert len((await apis[0].get(ADDRESSES))["items"]) == 2
            assert len(apis[0].catalog.hub.cache("/registry/reservations/nodeports/")) == 1

    run(main())


@pytest.mark.parametrize("shared", [{"kind": "Thing"}, {"shortNames": ["t"]}, {"singular": "thing"}])
def test_two_servers_give_a_name_to_one_definition(shared):
    async def main():
        async with servers(*two_on(MemoryStorage())) as apis:
            bodies = [definition(f"Kind{number}") for number in range(6)]
            for body in bodies:
                body["spec"]["names"] |= shared
            answers = await asyncio.gather(*(apis[number % 2].post(CRDS, body) for number, body in enumerate(bodies)))
            assert {answer.status for answer in answers} == {201}
            await asyncio.sleep(10)
            found = (await apis[0].get(CRDS))["items"]
            assert sorted(_condition(crd, "NamesAccepted") for crd in found) == ["False"] * 5 + ["True"]
            assert sorted(_condition(crd, "Established") for crd in found) == ["False"] * 5 + ["True"]
            winner = next(crd for crd in found if _condition(crd, "NamesAccepted") == "True")
            assert (await apis[1].delete(f"{CRDS}/{winner['metadata']['name']}")).status == 200
            await asyncio.sleep(60)
            found = (await apis[0].get(CRDS))["items"]
            assert sorted(_condition(crd, "NamesAccepted") for crd in found) == ["False"] * 4 + ["True"]

    run(main())


def test_without_the_comparison_two_servers_give_a_name_to_several_definitions():
    async def main():
        async with servers(*two_on(Blind())) as apis:
            bodies = [definition(f"Kind{number}", shortNames=["t"]) for number in range(6)]
            await asyncio.gather(*(apis[number % 2].post(CRDS, body) for number, body in enumerate(bodies)))
            found = (await apis[0].get(CRDS))["items"]
            assert [_condition(crd, "NamesAccepted") for crd in found].count("True") > 1

    run(main())


def _condition(crd, kind):
    return next(one["status"] for one in crd["status"]["conditions"] if one["type"] == kind)


def _limited(most):
    return definition(spec=record(size={**INTEGER, "maximum": most}))


async def _write_while_the_definition_changes(apis):
    """The revision of the stricter definition, and the objects that only the old one allows."""
    await apis[0].made(CRDS, _limited(100))
    await asyncio.sleep(5)

    async def tighten():
        await asyncio.sleep(0.5)
        crd = (await apis[0].get(WIDGET_CRD)).json
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = _limited(10)["spec"][
            "versions"
        ][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        answer = await apis[0].put(WIDGET_CRD, crd)
        assert answer.status == 200, answer
        return int(answer.metadata["resourceVersion"])

    async def create(number):
        await asyncio.sleep(number / 10)
        answer = await apis[1].post(WIDGETS, widget(f"w{number}", {"size": 50}))
        assert answer.status in (201, 422, 429), answer

    changed, *_ = await asyncio.gather(tighten(), *(create(number) for number in range(30)))
    await asyncio.sleep(5)
    items = (await apis[0].get(WIDGETS))["items"]
    return changed, [int(item["metadata"]["resourceVersion"]) for item in items]


def test_no_object_that_the_new_definition_forbids_is_committed_after_it_by_another_server():
    async def main():
        async with servers(*two_on(MemoryStorage())) as apis:
            changed, revisions = await _write_while_the_definition_changes(apis)
            assert revisions, "no object was created before the definition changed, so nothing was shown"
            assert max(revisions) < changed

    run(main())


def test_without_the_comparison_an_object_is_committed_after_the_definition_that_forbids_it():
    async def main():
        async with servers(*two_on(Blind())) as apis:
            changed, revisions = await _write_while_the_definition_changes(apis)
            assert max(revisions) > changed

    run(main())


def test_an_object_that_is_created_while_another_server_deletes_its_definition_does_not_survive_it():
    async def main():
        store = MemoryStorage()
        async with servers(*two_on(store)) as apis:
            await apis[0].made(CRDS, definition())
            await asyncio.sleep(5)

            async def create(number):
                await asyncio.sleep(number / 20)
                return (await apis[1].post(WIDGETS, widget(f"w{number}", {"size": 1}))).status

            async def delete():
                await asyncio.sleep(0.4)
                await apis[0].delete(WIDGET_CRD)

            _, *statuses = await asyncio.gather(delete(), *(create(number) for number in range(40)))
            assert 201 in statuses
            assert {403, 404} & set(statuses)
            await asyncio.sleep(60)
            assert (await apis[0].get(WIDGET_CRD)).status == 404
            assert (await store.range("/registry/example.com/")).entries == []

    run(main())


def test_the_shared_store_refuses_a_commit_that_another_server_overtook():
    """The support itself: a commit is compared when it arrives, not when it is sent."""

    async def main():
        store = MemoryStorage()
        async with servers(*two_on(store)) as apis:
            path = f"{SERVICES}/kubernetes"
            item = apis[0].catalog.store("services").get("default", "kubernetes")
            await apis[1].patch(path, {"metadata": {"labels": {"a": "b"}}})
            with pytest.raises(RevisionMismatch):
                await apis[0].storage.delete(item.key, item.revision)

    run(main())
