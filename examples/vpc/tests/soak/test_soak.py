"""Leaks: objects are created, reconciled and deleted, round after round, and nothing may grow.

The control plane runs in another process, so what grows here belongs to the operator. SOAK_ROUNDS=1000 is for a night.
"""

import os
from functools import partial

import pytest
from kapi import CustomResource
from kapi.api.errors import NotFound
from kapi.testing import Environment
from kapi.testing.soak import soak
from samples import is_ready, sample

from vpc.generated import KINDS, RECONCILED
from vpc.manager import setup

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "20"))
OBJECTS = int(os.environ.get("SOAK_OBJECTS", "20"))
"""The objects of a round."""


@pytest.mark.parametrize("kind", RECONCILED)
async def test_nothing_grows(kind: type[CustomResource]) -> None:
    async with Environment.process(crds=KINDS) as env:
        manager = env.manager()
        setup(manager)

        async def one_round() -> None:
            names = [f"object-{number}" for number in range(OBJECTS)]
            namespace = "default" if kind.naming.namespaced else ""
            for name in names:
                await env.client.create(sample(kind, name))
            for name in names:
                await env.eventually(partial(is_ready, env.client, kind, name), timeout=60)
                await env.client.delete(kind, name, namespace=namespace)
            for name in names:
                await env.eventually(partial(is_gone, name, namespace), timeout=60)
            env.history.clear()

        async def is_gone(name: str, namespace: str) -> bool:
            try:
                await manager.client.get(kind, name, namespace=namespace)
            except NotFound:
                return True
            return False

        async with env.run(manager):
            await soak(one_round, rounds=ROUNDS, objects=OBJECTS)
