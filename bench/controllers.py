"""The rows about garbage collection, for which kube-apiserver needs its controller manager."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.kube_apiserver import KubeApiserver
from bench.table import KAPI, Group, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Target


def _rows(settings: Settings) -> list[Row]:
    return [Row("collect.owned", f"{settings.some:,} owned objects collected", "/s")]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    targets: list[Target] = []
    for target in bench.targets:
        if isinstance(target, KubeApiserver):
            managed = target.with_manager()
            targets += [managed] if managed is not None else []
        elif target.name == KAPI:
            targets.append(target)
    with bench.fresh(rows, targets) as servers:
        collect = {
            name: partial(bench.work, running, "collect", count=bench.settings.some)
            for name, running in servers.items()
        }
        bench.alternate(rows[0], collect)


GROUP = Group("controllers", _rows, _measure)
