"""The rows about authorization and audit: what they add to a request, in processor time of the server.

The same server is started with and without them, and the servers take turns. The load is a user that is not a member of
system:masters, for whom rules are evaluated. Processor time is less noisy than a rate, and a few percent are at stake.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.client import call
from bench.objects import request
from bench.table import KAPI, Group, Row
from bench.target import Kapi
from kapi.base.tls import Authority, KeyPair

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Running

CONNECTIONS = 16
KINDS = {"get": "GET", "create": "create"}
ALWAYS_ALLOW = "AlwaysAllow"
WITHOUT_AUDIT = "without audit"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GROUP = "benchers"
_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"


def _rows(settings: Settings) -> list[Row]:
    rows = []
    for kind, shown in KINDS.items():
        rows.append(Row(f"rbac.{kind}", f"processor time of a {shown}, RBAC", "µs", 0.95, against=ALWAYS_ALLOW))
        rows.append(Row(f"audit.{kind}", f"processor time of a {shown}, audit", "µs", 0.91, against=WITHOUT_AUDIT))
    return rows


class _Configured(Kapi):
    """Kapi with options, used by a user with a role."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self.options = options

    def prepared(self, bench: Bench) -> Running:
        """Start a server with objects in it, and become a user of it."""
        folder = bench.fresh_folder()
        running = bench.start(self, folder)
        bench.work(running, "prepare")
        bench.work(running, "seed", first=0, count=bench.settings.some)
        asyncio.run(_grant(running))
        files = KeyPair(folder / "user.crt", folder / "user.key")
        authority = Authority.ensure(KeyPair(folder / "pki" / "ca.crt", folder / "pki" / "ca.key"), "kapi")
        authority.ensure_client(files, "bench", (_GROUP,))
        running.address = dataclasses.replace(running.address, certificate=str(files.certificate), key=str(files.key))
        return running


async def _grant(running: Running) -> None:
    """Let the group of the user do everything with resources."""
    kind = {"apiGroup": "rbac.authorization.k8s.io"}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    objects: dict[str, dict[str, Any]] = {
        "clusterroles": {"metadata": {"name": _GROUP}, "rules": [rule]},
        "clusterrolebindings": {
            "metadata": {"name": _GROUP},
            "roleRef": {**kind, "kind": "ClusterRole", "name": _GROUP},
            "subjects": [{**kind, "kind": "Group", "name": _GROUP}],
        },
    }
    for resource, obj in objects.items():
        await call(running.address, request("POST", f"{_RBAC}/{resource}", json.dumps(obj).encode()))


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    servers: dict[str, Running] = {}
    try:
        for target in _targets(bench.folder):
            with bench.failing(rows, KAPI):
                servers[target.name] = target.prepared(bench)
        if len(servers) < 3:
            return
        for kind in KINDS:
            cost = {name: partial(_cost, bench, running, kind) for name, running in servers.items()}
            figures = {KAPI: cost["rbac"], ALWAYS_ALLOW: cost["allow"]}
            bench.alternate(f"rbac.{kind}", figures)
            bench.alternate(f"audit.{kind}", {KAPI: cost["audit"], WITHOUT_AUDIT: cost["rbac"]})
    finally:
        for running in servers.values():
            running.stop()


def _targets(folder: Path) -> list[_Configured]:
    policy = folder / "metadata.yaml"
    policy.write_text(_POLICY)
    audit = ("--audit-policy-file", str(policy), "--audit-log", str(folder / "audit.log"))
    return [
        _Configured("allow", "--authorization-mode", ALWAYS_ALLOW),
        _Configured("rbac"),
        _Configured("audit", *audit),
    ]


def _cost(bench: Bench, running: Running, kind: str) -> Figure:
    """The processor time of one request, over all threads of the server."""
    before = running.processor_seconds()
    figure = bench.work(
        running,
        "requests",
        kind=kind,
        connections=CONNECTIONS,
        seconds=bench.settings.seconds,
        keys=bench.settings.some,
        of="configmaps",
    )
    return figure | {"value": (running.processor_seconds() - before) / figure["count"]}


GROUP = Group("identity", _rows, _measure)
