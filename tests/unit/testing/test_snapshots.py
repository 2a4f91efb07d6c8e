"""Snapshots, forks and restores: a state that is kept, copied and brought back."""

import asyncio

import pytest
from sample_operator import Site, site, sites

from kapi import NotFound
from kapi.base.loop import run
from kapi.testing import Environment

CONFIG_MAP = ("v1", "ConfigMap")
DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def names(client, kind=CONFIG_MAP):
    return {one["metadata"]["name"] for one in await client.list(kind, namespace="default")} - {"kube-root-ca.crt"}


def test_a_fork_has_the_state_of_its_origin_and_shares_nothing_with_it():
    async def main():
        async with Environment(crds=[Site]) as env:
            await env.client.create(config_map("before"))
            await env.client.create(site("a"))
            async with env.fork() as fork:
                assert await names(fork.client) == {"before"}
                assert (await fork.client.get(Site, "a", namespace="default")).spec.title == "hello"
                await fork.client.create(config_map("in-fork"))
                await env.client.create(config_map("in-origin"))
                assert await names(fork.client) == {"before", "in-fork"}
                assert await names(env.client) == {"before", "in-origin"}
                async with fork.fork() as second:
                    assert await names(second.client) == {"before", "in-fork"}

    run(main())


def test_a_fork_goes_on_with_the_resource_versions_of_its_origin():
    async def main():
        async with Environment() as env:
            first = await env.client.create(config_map("a"))
            async with env.fork() as fork:
                found = await fork.client.get(CONFIG_MAP, "a", namespace="default")
                assert found == first
                second = await fork.client.create(config_map("b"))
                assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])

    run(main())


def test_a_restore_brings_objects_back_in_newer_revisions():
    async def main():
        async with Environment() as env:
            changed = await env.client.create(config_map("changed", key="old"))
            deleted = await env.client.create(config_map("deleted"))
            same = await env.client.create(config_map("same"))
            state = env.snapshot()
            await env.client.patch(changed, {"data": {"key": "new"}})
            await env.client.delete(CONFIG_MAP, "deleted", namespace="default")
            last = await env.client.create(config_map("created"))
            await env.restore(state)
            assert await names(env.client) == {"changed", "deleted", "same"}
            for before in (changed, deleted):
                after = await env.client.get(CONFIG_MAP, before["metadata"]["name"], namespace="default")
                version = after["metadata"].pop("resourceVersion")
                assert int(version) > int(last["metadata"]["resourceVersion"])
                before["metadata"].pop("resourceVersion")
                assert after == before
            assert await env.client.get(CONFIG_MAP, "same", namespace="default") == same

    run(main())


def test_a_watch_that_is_open_delivers_what_a_restore_changes():
    async def main():
        async with Environment(controllers=()) as env:
            await env.client.create(config_map("a", key="old"))
            state = env.snapshot()
            async with env.client.watch(CONFIG_MAP, namespace="default") as events:
                seen = []

                async def read():
                    async for event in events:
                        seen.append((event.type, event.object["metadata"]["name"], event.object.get("data")))
                        if len(seen) == 5:
                            return

                reading = asyncio.ensure_future(read())
                await env.eventually(lambda: seen)
                await env.client.patch(CONFIG_MAP, {"data": {"key": "new"}}, name="a", namespace="default")
                await env.client.create(config_map("b"))
                await env.restore(state)
                await reading
            assert seen == [
                ("ADDED", "a", {"key": "old"}),
                ("MODIFIED", "a", {"key": "new"}),
                ("ADDED", "b", None),
                ("DELETED", "b", None),
                ("MODIFIED", "a", {"key": "old"}),
            ]

    run(main())


def test_a_restore_brings_kinds_back_and_removes_those_that_were_not_there():
    async def main():
        async with Environment(controllers=()) as env:
            without = env.snapshot()
            await env.apply(_definition())
            await env.client.create(site("a"))
            with_kind = env.snapshot()
            await env.restore(without)
            with pytest.raises(NotFound):
                await env.client.rest.request("GET", "/apis/example.com/v1/sites")
            await env.restore(with_kind)
            assert (await env.client.get(Site, "a", namespace="default")).spec.title == "hello"

    run(main())


def _definition():
    from kapi import definition

    return definition(Site)


def test_a_manager_follows_a_restore():
    async def main():
        async with Environment(crds=[Site]) as env:
            manager = env.manager()
            sites(manager)
            async with env.run(manager):
                empty = env.snapshot()
                await env.client.create(site("a"))
                await env.eventually(lambda: env.client.get(CONFIG_MAP, "a", namespace="default"))
                await env.restore(empty)
                assert await names(env.client) == set()
                await env.client.create(site("a", title="again"))

                async def has_title():
                    page = await env.client.get(CONFIG_MAP, "a", namespace="default")
                    return page["data"] == {"title": "again"}

                await env.eventually(has_title)

    run(main())


def test_many_tests_can_each_have_a_fork():
    async def main():
        async with Environment(crds=[Site], controllers=()) as env:
            state = env.snapshot()
            for number in range(20):
                async with env.fork(state) as fork:
                    await fork.client.create(site(f"s{number}"))
                    assert await names(fork.client, ("example.com/v1", "Site")) == {f"s{number}"}

    run(main())
