"""What informers tell Prometheus, in virtual time."""

import asyncio
import gc

from prometheus_client import CollectorRegistry, generate_latest
from scripted_collection import ScriptedCollection, expired

import virtual_time
from kapi.client.errors import ConnectionLost
from kapi.informer.cached import decoder_of
from kapi.informer.informer import SharedInformer
from kapi.informer.metrics import InformerMetrics
from kapi.informer.namespaces import Parts


class Rig:
    def __init__(self, source, registry=None, name="things"):
        self.registry = registry or CollectorRegistry()
        self.name = name
        self.informer = SharedInformer(
            source,
            decoder_of(dict),
            name=name,
            clock=virtual_time.LoopClock(),
            metrics=InformerMetrics(self.registry),
        )

    def read(self, metric, name="", **labels):
        return self.registry.get_sample_value(metric, {"name": name or self.name, **labels})


def scenario(main):
    async def run():
        server = ScriptedCollection()
        server.put("a")
        server.put("b")
        rig = Rig(server)
        try:
            await main(server, rig)
        finally:
            await rig.informer.stop()

    virtual_time.run(run())


def test_lists_and_watches_are_counted_and_timed():
    async def main(server, rig):
        assert rig.read("reflector_lists_total") == 0
        rig.informer.start()
        await rig.informer.wait_for_sync()
        assert rig.read("reflector_lists_total") == 1
        assert rig.read("reflector_items_per_list_sum") == 2
        assert rig.read("reflector_outcomes_total", state="streaming", outcome="synced") == 1
        server.put("c")
        server.put("a")
        await asyncio.sleep(20)
        server.connection.end()
        await asyncio.sleep(1)
        assert rig.read("reflector_watches_total") == 1
        assert rig.read("reflector_items_per_watch_sum") == 2
        assert rig.read("reflector_watch_duration_seconds_sum") == 20
        assert rig.read("reflector_short_watches_total") == 0
        assert rig.read("reflector_last_resource_version") == 14

    scenario(main)


def test_failures_are_counted_by_state_and_outcome():
    async def main(server, rig):
        server.failures = [ConnectionLost("reset")]
        rig.informer.start()
        await rig.informer.wait_for_sync(30)
        assert rig.read("reflector_outcomes_total", state="streaming", outcome="failed") == 1
        assert rig.read("reflector_outcomes_total", state="listing", outcome="synced") == 1
        await asyncio.sleep(0.1)
        server.connection.end()
        await asyncio.sleep(0.1)
        assert rig.read("reflector_short_watches_total") == 1
        await asyncio.sleep(10)
        server.connection.fail(expired())
        await asyncio.sleep(10)
        assert rig.read("reflector_outcomes_total", state="watching", outcome="lost") == 1
        assert rig.read("reflector_lists_total") == 3

    scenario(main)


def test_how_much_is_held_and_how_stale_it_is_are_read_when_asked_for():
    async def main(server, rig):
        assert rig.read("informer_synced") == 0
        rig.informer.start()
        await rig.informer.wait_for_sync()
        assert rig.read("informer_synced") == 1
        assert rig.read("informer_items") == 2
        assert rig.read("informer_queued_items") == 0
        server.connection.stall()
        await asyncio.sleep(30)
        assert rig.read("reflector_silent_seconds") == 30

    scenario(main)


def test_each_namespace_of_a_spread_collection_is_counted_by_itself():
    async def main():
        servers = {"x": ScriptedCollection(), "y": ScriptedCollection()}

        async def find():
            return servers

        rig = Rig(Parts(find))
        async with rig.informer:
            await rig.informer.wait_for_sync(30)
            for namespace in servers:
                assert rig.read("reflector_lists_total", f"things, in {namespace}") == 1
            assert rig.read("informer_items") == 0
            assert rig.read("reflector_lists_total") is None

    virtual_time.run(main())


def test_of_two_informers_with_one_name_the_later_is_shown_once_and_the_gone_are_not():
    async def main(server, rig):
        other = Rig(server, rig.registry)
        server.put("c")
        async with other.informer:
            await other.informer.wait_for_sync(30)
            # The earlier one stops without taking the later one's place away.
            await rig.informer.stop()
            assert rig.read("informer_items") == 3
            assert generate_latest(rig.registry).count(b"\ninformer_items{") == 1
        assert rig.read("informer_items") is None
        other.informer = None
        gc.collect()
        assert b"nan" not in generate_latest(rig.registry).lower()

    scenario(main)
