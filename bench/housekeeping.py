"""The rows about what a control plane does by itself. The reference runs without its controller manager: Kapi alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.table import KAPI, Group, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.runner import Bench
    from bench.settings import Settings


def _rows(settings: Settings) -> list[Row]:
    return [Row("collect.owned", f"{settings.some:,} owned objects collected", "/s")]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    targets = [target for target in bench.targets if target.name == KAPI]
    with bench.fresh(rows, targets) as servers:
        for name, running in servers.items():
            bench.alternate(rows[0], {name: partial(bench.work, running, "collect", count=bench.settings.some)})


GROUP = Group("housekeeping", _rows, _measure)
