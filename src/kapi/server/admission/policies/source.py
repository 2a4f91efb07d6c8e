"""The stored policies and bindings of one kind, indexed by operation, resource and sub-resource.

They are read from the watch cache when they are first needed after a change, and a change is heard before its write is
answered: the next request is decided by it. A policy is compiled when it is first used.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kapi.api.limits import OFF_LOOP_BYTES
from kapi.base.offloop import Computed, off_loop
from kapi.server.admission.matching import GROUP, RequestKind, is_exempt
from kapi.server.admission.policies.matchresources import MatchResources, ResourceMatcher
from kapi.server.admission.policies.params import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.admission.matching import ResourceMatch

T = TypeVar("T")

_COMPILED_OFF_LOOP: Final = 4096
"""The size of a policy, as JSON, from which on it is compiled in a thread."""

_VIRTUAL_GROUPS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Reviews: a policy about them could keep everyone from asking what they may do."""


class Binding(NamedTuple):
    """A stored binding."""

    item: Item
    name: str
    spec: Object
    match: MatchResources | None
    """None when it covers all that its policy covers."""


class Policy(Generic[T]):
    """A stored policy and, once it was used, its compiled form."""

    __slots__ = ("_compiled", "item", "match", "name", "spec")

    def __init__(self, item: Item, obj: Object, compile_: Callable[[str, Object], T]) -> None:
        self.item = item
        self.name = item.name
        self.spec: Object = obj.get("spec") or {}
        self.match = MatchResources(self.spec.get("matchConstraints") or {})
        self._compiled = Computed(partial(compile_, self.name, self.spec), is_long=len(item.body) >= _COMPILED_OFF_LOOP)

    @property
    def ignores_failure(self) -> bool:
        """True if errors of the policy do not refuse requests."""
        return bool(self.spec.get("failurePolicy") == "Ignore")

    @property
    def ready(self) -> T | None:
        """The compiled policy; None until it was first used."""
        return self._compiled.value

    async def compiled(self) -> T:
        """Return the compiled policy; ConfigurationError for one that this server's API would not have accepted."""
        try:
            return await self._compiled.get()
        except Exception as error:
            raise ConfigurationError(f"the policy cannot be read: {error}") from error


class Invocation(NamedTuple):
    """A binding that applies to a request, with one of its params."""

    binding: Binding
    match: ResourceMatch
    param: Object | None


class Hook(NamedTuple, Generic[T]):
    """A policy with its bindings, for the requests of one kind."""

    policy: Policy[T]
    matcher: ResourceMatcher
    bindings: tuple[tuple[Binding, ResourceMatcher | None], ...]
    invocations: tuple[Invocation, ...]
    """Those for every request that the policy applies to, where that is known beforehand; empty where it is not."""


class PolicySource(Generic[T]):
    """The policies of one kind, with their bindings."""

    def __init__(
        self, catalog: Catalog, resource: str, compile_: Callable[[str, Object], T], forget: Callable[[], None]
    ) -> None:
        """`resource` is the plural of the policies; `forget` is called after each change."""
        self._catalog = catalog
        self._policies = catalog.store(f"{resource}.{GROUP}")
        self._bindings = catalog.store(f"{resource.removesuffix('ies')}ybindings.{GROUP}")
        self._compile = compile_
        self._forget = forget
        self._read: dict[str, Policy[T]] | None = None
        """By name; None after a change."""
        self._bound: dict[str, list[Binding]] = {}
        self._kept: dict[str, Policy[T]] = {}
        """The policies that were read last: those that did not change stay compiled."""
        self._kept_bindings: dict[str, Binding] = {}
        self._preparing = asyncio.Lock()
        self._hooks: dict[tuple[str, Resource, str], tuple[Hook[T], ...]] = {}
        for store in (self._policies, self._bindings):
            store.cache.listen(self._changed)
        catalog.on_change.append(self._hooks.clear)

    async def prepare(self) -> None:
        """Read large policies and bindings that have changed, off the event loop."""
        if self._read is not None:
            return
        guard = self._policies.hub.invalid.guard
        async with self._preparing:
            for item in self._policies.cache.items():
                if len(item.body) >= OFF_LOOP_BYTES and not _has(self._kept, item):
                    with guard(item.key, "admission"):
                        self._kept[item.name] = await off_loop(self._policy, item)
            for item in self._bindings.cache.items():
                if len(item.body) >= OFF_LOOP_BYTES and not _has(self._kept_bindings, item):
                    with guard(item.key, "admission"):
                        self._kept_bindings[item.name] = await off_loop(self._binding, item)

    def hooks(self, operation: str, resource: Resource, subresource: str) -> Sequence[Hook[T]]:
        """Return the policies, in order of name, whose rules and whose bindings' rules cover such requests."""
        key = operation, resource, subresource
        found = self._hooks.get(key)
        if found is None:
            if is_exempt(resource) or resource.group in _VIRTUAL_GROUPS:
                found = ()
            else:
                request = RequestKind(*key, self._catalog)
                found = tuple(hook for policy in self._all() if (hook := self._hook(policy, request)) is not None)
            self._hooks[key] = found
        return found

    def _hook(self, policy: Policy[T], request: RequestKind) -> Hook[T] | None:
        bindings = self._bound.get(policy.name)
        if not bindings:
            return None
        matcher = policy.match.matcher(request)
        if matcher is None:
            return None
        matched: list[tuple[Binding, ResourceMatcher | None]] = []
        for binding in bindings:
            if binding.match is None:
                matched.append((binding, None))
            elif (own := binding.match.matcher(request)) is not None:
                matched.append((binding, own))
        return Hook(policy, matcher, tuple(matched), _invocations(policy, matcher, matched)) if matched else None

    def _all(self) -> list[Policy[T]]:
        if self._read is None:
            self._read = {}
            for item in self._policies.cache.items():
                with self._policies.hub.invalid.guard(item.key, "admission"):
                    self._read[item.name] = self._policy(item)
            self._kept = self._read
            self._bound = {}
            bindings: dict[str, Binding] = {}
            for item in self._bindings.cache.items():
                with self._policies.hub.invalid.guard(item.key, "admission"):
                    binding = bindings[item.name] = self._binding(item)
                    self._bound.setdefault(binding.spec["policyName"], []).append(binding)
            self._kept_bindings = bindings
        return list(self._read.values())

    def _policy(self, item: Item) -> Policy[T]:
        kept = self._kept.get(item.name)
        if kept is not None and kept.item is item:
            return kept
        return Policy(item, self._policies.decode(item), self._compile)

    def _binding(self, item: Item) -> Binding:
        kept = self._kept_bindings.get(item.name)
        if kept is not None and kept.item is item:
            return kept
        spec: dict[str, Any] = self._bindings.decode(item)["spec"]
        match = spec.get("matchResources")
        return Binding(item, item.name, spec, None if match is None else MatchResources(match))

    def _changed(self, events: Sequence[Event]) -> None:
        self._read = None
        self._hooks.clear()
        self._forget()


def _invocations(
    policy: Policy[Any], matcher: ResourceMatcher, bindings: Sequence[tuple[Binding, ResourceMatcher | None]]
) -> tuple[Invocation, ...]:
    """The invocations that depend on nothing in a request: of a policy without params, by bindings without rules."""
    if policy.spec.get("paramKind") is not None or len(matcher.matches) != 1:
        return ()
    if any(own is not None for _, own in bindings):
        return ()
    return tuple(Invocation(binding, matcher.matches[0], None) for binding, _ in bindings)


def _has(kept: Mapping[str, Policy[Any]] | Mapping[str, Binding], item: Item) -> bool:
    """Return True if an item was read before."""
    found = kept.get(item.name)
    return found is not None and found.item is item
