"""A large write holds the event loop no longer than a small one: other requests are served meanwhile."""

import threading
import time

import pytest

from api_client import APPLY, CM, JSON_PATCH, MERGE, Api
from kapi.registry import store
from kapi.registry import write as writepath
from kapi.registry.encoding import decode
from loop_turns import loop_turns
from virtual_time import run

SHARE = 0.6
"""The part of the CPU of a write that one turn of the loop may take. On the loop it would be nearly all of it."""

POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/rules.example.com/v1/namespaces/default/things"


def networks(count):
    return [f"10.{number // 65536}.{number // 256 % 256}.{number % 256}/32" for number in range(count)]


def policy(count):
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": networks(count)}}
    return {"metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"from": [block]}]}}


def quota(count):
    return {
        "metadata": {"name": "q"},
        "spec": {"hard": {f"count/k{number}.example.com": "1" for number in range(count)}},
    }


def definition(rules):
    """A definition whose schema has so many rules."""
    fields = {
        f"p{number}": {
            "type": "string",
            "maxLength": 10,
            "x-kubernetes-validations": [{"rule": f"self != 'x{number}' && self.startsWith('a')"}],
        }
        for number in range(rules)
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    return {
        "metadata": {"name": "things.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def create_policy(api):
    yield api.request("POST", POLICIES, policy(10_000))


def create_quota(api):
    yield api.request("POST", QUOTAS, quota(10_000))


def change_config_map(api):
    data = {f"key-{number}": "" for number in range(25_000)}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    yield api.patch(f"{CM}/c", applied, APPLY, fieldManager="one")
    yield api.patch(f"{CM}/c", {"data": {"a": "b"}}, MERGE)
    yield api.patch(f"{CM}/c", [{"op": "add", "path": "/data/b", "value": "c"}], JSON_PATCH)
    yield api.patch(f"{CM}/c", {**applied, "data": {"z": "z"}}, APPLY, fieldManager="one")


def define_rules(api):
    yield api.request("POST", CRDS, definition(600))
    thing = {"apiVersion": "rules.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"p0": "ab"}}
    yield api.request("POST", THINGS, thing)


WRITES = (create_policy, create_quota, change_config_map, define_rules)


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_large_write_does_not_hold_the_event_loop(write):
    async def shares():
        api, found = Api(), []
        await api.start()
        try:
            for request in write(api):
                start = time.process_time()
                async with loop_turns() as turns:
                    answer = await request
                found.append(turns.longest / (time.process_time() - start))
                assert answer.status in (200, 201), answer
        finally:
            await api.stop()
        return found

    # The least of three runs for each request, so that a pass of the garbage collector does not count.
    assert max(map(min, zip(*(run(shares()) for _ in range(3)), strict=True))) < SHARE


STEPS = {
    "decoding the stored object": (writepath, "decode"),
    "measuring the object": (writepath, "_check_size"),
    "comparing it with the stored one": (writepath, "_same"),
    "copying a body": (writepath, "copy_of"),
    "decoding the current state for a patch": (store, "decode"),
}


@pytest.mark.parametrize(("module", "name"), STEPS.values(), ids=STEPS)
def test_no_step_of_a_large_write_is_on_the_event_loop(monkeypatch, module, name):
    """A PUT, a patch, an apply, a write that changes nothing and a deletion of an object of 100 kB."""
    function, threads = getattr(module, name), []

    def recorded(*args):
        if name != "decode" or len(args[1]) > 100_000:  # and not the namespace, which is small
            threads.append(threading.current_thread())
        return function(*args)

    async def main():
        api = Api()
        await api.start()
        try:
            large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * 100_000}}
            await api.made(CM, large)
            monkeypatch.setattr(module, name, recorded)
            answers = [
                await api.put(f"{CM}/c", {**large, "data": {"a": "y" * 100_000}}),
                await api.put(f"{CM}/c", {**large, "data": {"a": "y" * 100_000}}),
                await api.patch(f"{CM}/c", {"metadata": {"labels": {"a": "b"}}}, MERGE),
                await api.patch(f"{CM}/c", large, APPLY, fieldManager="one", force="true"),
                await api.delete(f"{CM}/c"),
            ]
            assert [answer.status for answer in answers] == [200] * 5
        finally:
            await api.stop()

    run(main())
    assert threads
    assert threading.main_thread() not in threads


def test_the_creation_of_an_existing_object_does_not_decode_it(monkeypatch):
    decoded = []

    async def main():
        api = Api()
        await api.start()
        try:
            metadata = {"name": "c", "finalizers": ["example.com/f"]}
            await api.made(CM, {"metadata": metadata, "data": {"a": "x" * 100_000}})
            await api.delete(f"{CM}/c")
            for module in (store, writepath):
                monkeypatch.setattr(
                    module, "decode", lambda head, body: decoded.append(len(body)) or decode(head, body)
                )
            return await api.post(CM, {"metadata": {"name": "c"}})
        finally:
            await api.stop()

    answer = run(main())
    assert answer.status == 409
    assert answer.json["message"] == 'object is being deleted: configmaps "c" already exists'
    assert max(decoded, default=0) < 100_000
