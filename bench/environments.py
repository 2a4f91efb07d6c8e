"""The rows about `kapi.testing`: how soon a test has a control plane, and what each further test costs.

They are measured in a process of their own, `python -m bench.environments JOB COUNT`, as tests are run. kube-apiserver
and etcd are started and stopped for a test, as by controller-runtime's envtest.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from bench.table import KAPI, Group, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Target
    from kapi.testing import Environment, Snapshot

UP = "kapi up"
TIMEOUT = 600.0


def _rows(settings: Settings) -> list[Row]:
    return [
        Row("testing.ready", "first environment of a test process, start and stop", "ms", 10.0),
        Row("testing.import", "the same, imports included", "ms"),
        Row("testing.fork", "a fork of an environment, start and stop", "ms", 100.0),
        Row("testing.forks", f"{settings.tests} tests, each on a fork", "s"),
        Row("testing.restore", "a restore of 10 objects", "ms"),
    ]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    servers: dict[str, Callable[[], Figure]] = {
        UP if target.name == KAPI else target.name: partial(_start_and_stop, bench, target) for target in bench.targets
    }
    for row in rows:
        compared = servers if row in ("testing.ready", "testing.fork") else {}
        bench.alternate(row, {KAPI: partial(_in_process, row, bench.settings.tests), **compared})


def _start_and_stop(bench: Bench, target: Target) -> Figure:
    """The seconds that a test suite waits for servers of its own."""
    began = time.perf_counter()
    bench.start(target, bench.fresh_folder()).stop()
    return {"value": time.perf_counter() - began}


def _in_process(row: str, tests: int) -> Figure:
    command = [sys.executable, "-m", "bench.environments", row.partition(".")[2], str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    figure: Figure = json.loads(done.stdout)
    return figure


GROUP = Group("testing", _rows, _measure)


# -- in the process of tests ------------------------------------------------------------------------------------------


def _config_map(number: int) -> dict[str, object]:
    metadata = {"name": f"object-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "value"}}


async def _one(environment: Environment) -> None:
    """Start, do what a small test does, and stop."""
    async with environment as env:
        await env.client.create(_config_map(0))


async def _job(job: str, tests: int, started: float) -> float:
    from kapi.testing.environment import Environment

    began = started if job == "import" else time.perf_counter()
    if job in ("ready", "import"):
        await _one(Environment())
        return time.perf_counter() - began
    async with Environment() as env:
        state = env.snapshot()
        await _one(env.fork(state))
        if job == "restore":
            return sum([await _restored(env, state) for _ in range(tests)]) / tests
        began = time.perf_counter()
        for _ in range(tests):
            await _one(env.fork(state))
        total = time.perf_counter() - began
        return total if job == "forks" else total / tests


async def _restored(env: Environment, state: Snapshot) -> float:
    for number in range(10):
        await env.client.create(_config_map(number))
    began = time.perf_counter()
    await env.restore(state)
    return time.perf_counter() - began


def main(job: str, tests: int) -> None:
    """Measure one row, and print the figure."""
    started = time.perf_counter()
    import kapi.testing.environment  # noqa: F401 - what a test module imports

    sys.stdout.write(json.dumps({"value": asyncio.run(_job(job, tests, started))}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
