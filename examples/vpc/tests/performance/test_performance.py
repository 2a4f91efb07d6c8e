"""The cost of the operator: reconciles per second, CPU and requests for each object, and memory.

Time depends on the machine, so the figures are printed and written to build/performance.json, to be compared from run
to run. What does not depend on it, the number of requests for each object, is asserted.
"""

import json
import os
import resource
import time
from functools import partial

import pytest
from kapi import CustomResource
from kapi.testing import Environment
from samples import ROOT, is_ready, sample

from vpc.generated import KINDS, RECONCILED
from vpc.manager import setup

OBJECTS = int(os.environ.get("PERFORMANCE_OBJECTS", "200"))
MOST_WRITES = 2
"""The writes of the operator for each object, Events not counted: adjust it to what your reconciler does."""


@pytest.mark.parametrize("kind", RECONCILED)
async def test_the_cost_of_an_object(kind: type[CustomResource]) -> None:
    async with Environment.process(crds=KINDS) as env:
        for number in range(OBJECTS):
            await env.client.create(sample(kind, f"object-{number}"))
        manager = env.manager()
        setup(manager)
        began, cpu = time.perf_counter(), time.process_time()
        async with env.run(manager):
            for number in range(OBJECTS):
                await env.eventually(partial(is_ready, env.client, kind, f"object-{number}"), timeout=120)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        writes = [entry for entry in env.history.requests(verb="write", user="manager") if entry.is_write]
        figures = {
            "objects": OBJECTS,
            "objects_per_second": round(OBJECTS / seconds, 1),
            "cpu_milliseconds_per_object": round(1000 * cpu / OBJECTS, 2),
            "writes_per_object": round(len(writes) / OBJECTS, 2),
            "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        }
        _report(kind.gvk.kind, figures)
        assert len(writes) <= MOST_WRITES * OBJECTS, env.history.story()


def _report(kind: str, figures: dict[str, float]) -> None:
    path = ROOT / "build" / "performance.json"
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, kind: figures}, indent=2) + "\n")
    print(f"\n{kind}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
