"""The admission chain: plug-ins that may change or refuse a write, in a fixed order, mutating ones first.

A plug-in says with `handles` which writes concern it, by operation, resource and sub-resource. The chain asks once for
each combination and remembers the answers, so that a write that no plug-in handles costs one look-up. A plug-in whose
answers depend on configuration calls `Admission.forget` when it changes; if it has a coroutine function `prepare`, that
is called before it is asked again, to read large configurations off the event loop.

The write path (`registry/write.py`) calls the chain and knows it as `Admission`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from kapi.registry.encoding import copy_of
from kapi.registry.request import Reinvocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.admission.metrics import AdmissionMetrics

MAX_REMEMBERED: Final = 4096
"""Combinations of operation, resource and sub-resource: more than any server has, unless definitions come and go."""

_now = time.perf_counter


class Plugin(Protocol):
    """Concerns some writes. Implements `mutate`, `validate`, or both."""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if such writes concern the plug-in. The answer is remembered."""
        ...


@runtime_checkable
class MutatingPlugin(Plugin, Protocol):
    """May change the object, or refuse the write."""

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Change `obj` in place, or raise; `obj` is None for a DELETE."""
        ...


@runtime_checkable
class ValidatingPlugin(Plugin, Protocol):
    """May refuse the write.

    It is given copies, so that what it does to them has no effect, unless it has an attribute `reads_only` that is
    True: then it promises not to change them.
    """

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; `obj` is None for a DELETE."""
        ...


P = TypeVar("P", bound=Plugin)


class _Handlers(NamedTuple):
    """The plug-ins that one kind of write concerns, each with its name."""

    mutating: tuple[tuple[str, MutatingPlugin], ...]
    validating: tuple[tuple[str, ValidatingPlugin], ...]


class Admission:
    """The plug-ins of one server, in order, by name."""

    def __init__(self, plugins: Mapping[str, Plugin], metrics: AdmissionMetrics | None = None) -> None:
        # Not by isinstance, which takes 0.1 ms for a protocol, at the start of each control plane of a test.
        mutating = {name: plugin for name, plugin in plugins.items() if getattr(plugin, "mutate", None)}
        validating = {name: plugin for name, plugin in plugins.items() if getattr(plugin, "validate", None)}
        self._mutating = tuple(cast("dict[str, MutatingPlugin]", mutating).items())
        self._validating = tuple(cast("dict[str, ValidatingPlugin]", validating).items())
        self._preparing = [plugin.prepare for plugin in plugins.values() if hasattr(plugin, "prepare")]
        self._metrics = metrics
        self._remembered: dict[tuple[str, Resource, str], _Handlers] = {}

    def forget(self) -> None:
        """Ask the plug-ins again which writes they handle: a configuration, or what is served, has changed."""
        self._remembered.clear()

    async def _handlers(self, write: Write) -> _Handlers:
        key = (write.operation, write.resource, write.subresource)
        found = self._remembered.get(key)
        if found is None:
            for prepare in self._preparing:
                await prepare()
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = _Handlers(_those(self._mutating, key), _those(self._validating, key))
        return found

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Run the mutating plug-ins, and once more if one of them asks for it."""
        plugins = (await self._handlers(write)).mutating
        write.reinvocation = None
        if not plugins:
            return
        await self._mutate(plugins, write, obj, old)
        again: Reinvocation | None = write.reinvocation
        if again is not None and again.requested:
            again.is_second = True
            await self._mutate(plugins, write, obj, old)

    async def _mutate(
        self, plugins: tuple[tuple[str, MutatingPlugin], ...], write: Write, obj: Object | None, old: Object | None
    ) -> None:
        begin = started = _now()
        name = ""
        try:
            for name, plugin in plugins:
                await plugin.mutate(write, obj, old)
                if self._metrics is not None:
                    started = self._metrics.admitted(name, "admit", write.operation, started)
        except BaseException:
            if self._metrics is not None:
                self._metrics.rejected(name, "admit", write.operation, started, begin)
            raise
        if self._metrics is not None:
            self._metrics.finished("admit", write.operation, begin)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Run the validating plug-ins."""
        plugins = (await self._handlers(write)).validating
        if not plugins:
            return
        begin = started = _now()
        name = ""
        try:
            for name, plugin in plugins:
                if getattr(plugin, "reads_only", False):
                    await plugin.validate(write, obj, old)
                else:
                    await plugin.validate(write, copy_of(obj), copy_of(old))
                if self._metrics is not None:
                    started = self._metrics.admitted(name, "validate", write.operation, started)
        except BaseException:
            if self._metrics is not None:
                self._metrics.rejected(name, "validate", write.operation, started, begin)
            raise
        if self._metrics is not None:
            self._metrics.finished("validate", write.operation, begin)


def _those(plugins: tuple[tuple[str, P], ...], key: tuple[str, Resource, str]) -> tuple[tuple[str, P], ...]:
    return tuple((name, plugin) for name, plugin in plugins if plugin.handles(*key))


def reinvocation_of(write: Write) -> Reinvocation:
    """Return the reinvocation context of a write, for plug-ins that ask for a second run or act differently in it."""
    if write.reinvocation is None:
        write.reinvocation = Reinvocation()
    return write.reinvocation
