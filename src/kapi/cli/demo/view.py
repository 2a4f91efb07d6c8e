"""The live table of the demo: a line for each change of a Network, with what happened and why."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

from kapi.api.access import is_deleting
from kapi.api.keys import ObjectKey
from kapi.cli.demo.network import ready_condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.base.clock import Clock
    from kapi.cli.demo.network import Network

COLUMNS: Final = (
    ("TIME", 8),
    ("NETWORK", 24),
    ("CIDR", 15),
    ("GATEWAY", 13),
    ("READY", 6),
    ("BACKEND", 9),
    ("WHAT HAPPENED", 0),
)


class LiveTable:
    """Prints changes as an event handler of an informer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reconciled: dict[ObjectKey, Network] = {}
        self._changed = asyncio.Event()

    async def wait_until_reconciled(self, key: ObjectKey) -> Network:
        """Wait until the table shows a network with a condition; returns the network."""
        while key not in self._reconciled:
            self._changed.clear()
            await self._changed.wait()
        return self._reconciled[key]

    def print_head(self) -> None:
        """Print the names of the columns."""
        self._print([name for name, _ in COLUMNS])

    def on_add(self, obj: Network, *, initial: bool) -> None:
        """See `kapi.informer.Handler`."""
        if initial:
            # Its condition is news of the last run, and not of this one.
            last = _condition(obj)
            self._row(obj, f"is stored already; the last time: {last}" if last else "is stored already")
            return
        self._row(obj, f"created by {_writer(obj, ('cidr', 'gateway'))}")
        if ready_condition(obj) is not None:
            self._row(obj, _condition(obj))

    def on_update(self, old: Network, new: Network) -> None:
        """See `kapi.informer.Handler`."""
        names = [name for name in ("cidr", "gateway") if getattr(old.spec, name) != getattr(new.spec, name)]
        if names:
            changes = [f"{name} from {_value(old, name)} to {_value(new, name)}" for name in names]
            self._row(new, f"{_writer(new, names)} changed {' and '.join(changes)}")
        if is_deleting(new) and not is_deleting(old):
            self._row(new, f"is being deleted; waits for {', '.join(new.metadata.finalizers or ())}")
        if _condition(old) != _condition(new):
            self._row(new, _condition(new))

    def on_delete(self, obj: Network, *, stale: bool) -> None:
        """See `kapi.informer.Handler`."""
        self._row(obj, "deleted, and its network with it")
        self._reconciled.pop(ObjectKey.of(obj), None)

    def _row(self, network: Network, what: str) -> None:
        ready = ready_condition(network)
        if ready is not None:
            self._reconciled[ObjectKey.of(network)] = network
            self._changed.set()
        self._print(
            [
                f"{self._clock.now():%H:%M:%S}",
                str(ObjectKey.of(network)),
                network.spec.cidr,
                network.spec.gateway,
                ready.status or "" if ready is not None else "",
                network.status.backend,
                what,
            ]
        )

    @staticmethod
    def _print(cells: list[str]) -> None:
        padded = (cell.ljust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
        sys.stdout.flush()


def _condition(network: Network) -> str:
    ready = ready_condition(network)
    return f"{ready.reason}: {ready.message}" if ready is not None else ""


def _value(network: Network, name: str) -> str:
    return getattr(network.spec, name) or "none"


def _writer(network: Network, names: Sequence[str]) -> str:
    """The field manager, such as kubectl-edit, that owns one of these fields of the spec: the one that wrote it last.

    The times of managers are whole seconds, so they do not tell who was the last.
    """
    for entry in network.metadata.managed_fields or ():
        owned = (entry.fields_v1 or {}).get("f:spec", {})
        if any(f"f:{name}" in owned for name in names):
            return entry.manager or "a client"
    return "a client"
