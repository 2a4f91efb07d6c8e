"""What an environment costs: the garbage collector rests while it starts, and what it does not need is not imported."""

import asyncio
import contextlib
import gc
import subprocess
import sys

import pytest

from kapi.testing import Environment
from kapi.testing.collector import collector_paused


@contextlib.contextmanager
def counted_collections():
    found = []

    def began(phase, info):
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(began)
    try:
        yield found
    finally:
        gc.callbacks.remove(began)


def test_the_collector_rests_while_a_fork_starts_and_works_again_afterwards():
    async def main():
        async with Environment() as env:
            fork = env.fork()
            with counted_collections() as found:
                await fork.__aenter__()
            assert gc.isenabled()
            await fork.__aexit__(None, None, None)
            return found

    # Tens of thousands of objects are created: some thirty collections of the youngest ones, and several of the others.
    assert len(asyncio.run(main())) < 5


def test_a_start_that_fails_leaves_the_collector_as_it_was(monkeypatch):
    async def main():
        async with Environment(snapshot="no snapshot"):
            pass

    with pytest.raises(AttributeError):
        asyncio.run(main())
    assert gc.isenabled()


def test_pauses_may_overlap_and_leave_a_disabled_collector_disabled():
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


PROGRAM = """
import asyncio, sys
from kapi import CustomResource, Model, resource
from kapi.api.crd.markers import Rule
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.errors import Invalid
from kapi.testing import Environment

class Spec(Model):
    size: int = 1

@resource("example.com/v1")
class Plain(CustomResource, kw_only=True):
    spec: Spec

@resource("example.com/v1", rules=[Rule("self.spec.size < 10")])
class Ruled(CustomResource, kw_only=True):
    spec: Spec

async def main():
    async with Environment(crds=[Plain]) as env:
        await env.client.create(Plain(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec()))
    print("kapi.schema.cel" in sys.modules)
    async with Environment(crds=[Ruled]) as env:
        try:
            await env.client.create(Ruled(metadata=ObjectMeta(name="a", namespace="default"), spec=Spec(size=10)))
        except Invalid as error:
            print("self.spec.size < 10" in str(error))
    print("kapi.schema.cel" in sys.modules)

asyncio.run(main())
"""


def test_the_expression_language_is_imported_for_the_first_definition_with_rules():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
