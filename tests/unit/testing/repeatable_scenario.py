"""A scenario that `test_repeatable_runs` runs in several processes: prints all that happened, and all objects at the end.

Usage: repeatable_scenario.py SEED ..., where a seed is a number or `none`.
"""

import asyncio
import re
import sys

from sample_operator import Site, site, sites

from kapi import Leadership
from kapi.testing import Environment

POD = ("v1", "Pod")


def obj(kind, name, namespace="", *, generate=False, labels=None, **fields):
    metadata = {"generateName" if generate else "name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": {**metadata, "labels": labels or {}}, **fields}


async def at_once(coroutines):
    async with asyncio.TaskGroup() as group:
        for coroutine in coroutines:
            group.create_task(coroutine)


async def fill_namespaces(client, env):
    for name in ("x", "y"):
        await client.create(obj("Namespace", name))
        await client.create(obj("Namespace", "team-", generate=True))
        await client.create(obj("ResourceQuota", "q", name, spec={"hard": {"pods": "10", "services": "5"}}))
        for number in range(2):
            spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
            await client.create(obj("Service", f"service-{number}", name, spec=spec))
    await env.settled()
    pod = {"containers": [{"name": "c", "image": "i"}]}
    names = [(name, number) for name in ("x", "y") for number in range(3)]
    await at_once(client.create(obj("Pod", f"p{n}", name, labels={"app": "web"}, spec=pod)) for name, n in names)
    for name, number in names:
        address = f"10.1.0.{number + 1}"
        ready = [{"type": "Ready", "status": "True"}]
        status = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running", "conditions": ready}
        await client.patch_status(POD, {"status": status}, name=f"p{number}", namespace=name)


async def run(seed):
    async with Environment(crds=[Site], time="virtual", seed=seed) as env:
        managers = [env.manager(leadership=Leadership("sites", "default", identity=name)) for name in ("one", "two")]
        for manager in managers:
            sites(manager, workers=4)
        async with env.run(managers[0]), env.run(managers[1]):
            env.faults.add(verb="write", user="manager", then="lose_response", times=2)
            env.faults.add(verb="watch", then="cut_watch", times=3)
            await at_once(env.client.create(site(f"s{number}", refresh_seconds=30 * number)) for number in range(6))
            await fill_namespaces(env.client, env)
            await env.advance(minutes=2)
            await env.client.delete(("v1", "Namespace"), "x")
            await at_once(env.client.delete(Site, f"s{number}", namespace="default") for number in range(3))
            managers[0].stop()
            await env.advance(minutes=12)  # watches end at the same time
        for entry in env.history.entries:
            print(entry)
        for entry in env.snapshot().entries:
            # Keys and certificates are made anew by each process.
            print(entry.key, entry.revision, re.sub(r"-----BEGIN.*?-----END[^\"]*", "PEM", entry.value.decode()))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        asyncio.run(run(None if argument == "none" else int(argument)))
