"""The catalog: every built-in is there once, finds its store, and can be looked up by rules that span kinds."""

import pytest

from api_client import CM, NS, Api, cm, served
from kapi.registry.builtins import GROUPS
from kapi.schema.builtin.definitions import fingerprint
from virtual_time import run


@pytest.fixture(scope="module")
def catalog():
    async def main():
        return Api().catalog

    return run(main())


def test_every_row_is_served(catalog):
    rows = [(group.group, group.version, row.resource) for group in GROUPS for row in group.rows]
    assert len(rows) == len(set(rows))
    assert [(r.group, r.version, r.resource) for r in catalog] == sorted(rows, key=rows.index)
    assert all(catalog.find(*row) is not None for row in rows)


@pytest.mark.parametrize(
    "where", [("", "v1", "nope"), ("", "v2", "pods"), ("nope", "v1", "pods"), ("apps", "v1", "pods")]
)
def test_what_is_not_served_is_not_found(catalog, where):
    assert catalog.find(*where) is None


def test_every_kind_has_its_schema(catalog):
    assert fingerprint()
    for resource in catalog:
        assert resource.schema is not None, resource.kind


def test_stored_kinds_have_stores_of_their_own(catalog):
    prefixes = {}
    for resource in catalog:
        if resource.store is not None:
            prefixes.setdefault(resource.store.prefix, []).append((resource.group, resource.version, resource.resource))
    shared = {prefix: users for prefix, users in prefixes.items() if len(users) > 1}
    assert {tuple(user[:2] for user in users) for users in shared.values()} == {
        (("", "v1"), ("events.k8s.io", "v1")),
        (("autoscaling", "v2"), ("autoscaling", "v1")),
        (("apiextensions.k8s.io", "v1"), ("apiextensions.k8s.io", "v1beta1")),
    }


def test_kinds_with_a_status_endpoint_know_it(catalog):
    for resource in catalog:
        if resource.store is not None:
            assert resource.store.strategy.has_status is ("status" in resource.subresources), resource.resource


def test_scalable_kinds_are_the_known_ones(catalog):
    scalable = {resource.resource for resource in catalog if "scale" in resource.subresources}
    assert scalable == {"deployments", "replicasets", "statefulsets", "replicationcontrollers"}


def test_short_names_are_not_given_twice_in_a_group_version(catalog):
    for versions in catalog.groups.values():
        for resources in versions.values():
            names = [name for r in resources.values() for name in (r.resource, r.singular, *r.short_names)]
            plural_is_singular = [r.resource for r in resources.values() if r.resource == r.singular]
            assert len(names) - len(plural_is_singular) == len(set(names))


@served
async def test_strategies_can_look_up_other_objects(api):
    await api.made(CM, cm("a", data={"k": "v"}))
    await api.made(f"{NS}/kube-system/configmaps", cm("b"))
    catalog = api.catalog
    assert catalog.get("configmaps", "default", "a")["data"] == {"k": "v"}
    assert catalog.get("configmaps", "default", "b") is None
    assert catalog.get("configmaps", "default", "../x") is None
    names = [obj["metadata"]["name"] for obj in catalog.list("configmaps")]
    assert names == ["a", "b"]
    assert [obj["metadata"]["name"] for obj in catalog.list("configmaps", "default")] == ["a"]
    assert catalog.get("priorityclasses.scheduling.k8s.io", "", "system-node-critical")["value"] == 2_000_001_000


@served
async def test_looked_up_objects_are_copies(api):
    await api.made(CM, cm("a", data={"k": "v"}))
    api.catalog.get("configmaps", "default", "a")["data"]["k"] = "changed"
    assert (await api.get(f"{CM}/a"))["data"] == {"k": "v"}


def test_servers_in_one_process_do_not_share_pools():
    async def main():
        first, second = Api(), Api()
        await first.start()
        await second.start()
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.50"}}
        for api in (first, second):
            answer = await api.post(f"{NS}/default/services", service)
            assert answer.status == 201, answer
            await api.stop()

    run(main())


def test_objects_are_loaded_from_an_existing_store():
    async def main():
        first = Api()
        await first.start()
        made = await first.made(CM, cm("a", metadata={"labels": {"x": "1"}}))
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.50"}}
        await first.made(f"{NS}/default/services", service)
        await first.stop()
        await first.storage.compact(first.revision)
        second = Api(first.storage)
        await second.start()
        assert (await second.get(f"{CM}/a")).json == made
        assert (await second.get(CM, labelSelector="x=1")).names == ["a"]
        assert (await second.get(f"{NS}/default/services", fieldSelector="spec.clusterIP=10.0.0.50")).names == ["s"]
        taken = {**service, "metadata": {"name": "t"}}
        assert (await second.post(f"{NS}/default/services", taken)).status == 422
        await second.stop()

    run(main())


def test_watch_from_before_a_compaction_and_a_restart_is_410():
    async def main():
        first = Api()
        await first.start()
        made = await first.made(CM, cm("a"))
        await first.delete(f"{CM}/a")
        await first.stop()
        await first.storage.compact(first.revision)
        second = Api(first.storage)
        await second.start()
        # Silence here would leave the client believing for ever that the object is still there.
        watch = await second.watch(CM, resourceVersion=made["metadata"]["resourceVersion"])
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        await second.stop()

    run(main())
