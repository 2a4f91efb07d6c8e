"""The stored webhook configurations, compiled, and which webhooks concern a request.

A change of a configuration is heard before its write is answered, so the next request is decided by it. What the rules
cover is decided once for each operation and resource, so that a request that no webhook concerns costs nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kapi.api.limits import OFF_LOOP_BYTES, OFF_LOOP_EXPRESSIONS
from kapi.base.offloop import Computed, off_loop
from kapi.server.admission.matching import GROUP, RequestKind, ResourceRules, Selectors, is_exempt
from kapi.server.admission.webhooks.functions import CONFIGURATION
from kapi.server.admission.webhooks.review import VERSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.admission.matchconditions import MatchConditions
    from kapi.server.admission.matching import ResourceMatch
    from kapi.server.admission.webhooks.functions import Function

MUTATING: Final = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING: Final = f"validatingwebhookconfigurations.{GROUP}"
DEFAULT_SECONDS: Final = 10
NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


class Webhook:
    """One webhook of a configuration."""

    __slots__ = (
        "client_config",
        "conditions",
        "configuration",
        "function",
        "ignores_failure",
        "is_reinvoked",
        "match_conditions",
        "name",
        "review_version",
        "rules",
        "seconds",
        "selectors",
        "side_effects",
        "uid",
    )

    def __init__(self, configuration: str, webhook: Object, uid: str) -> None:
        self.configuration = configuration
        self.uid = uid
        """Its identity among all webhooks; names are unique within a configuration only."""
        self.name: str = webhook.get("name", "")
        self.rules = ResourceRules(webhook.get("rules") or (), match_policy=webhook.get("matchPolicy"))
        self.selectors = Selectors(webhook.get("namespaceSelector"), webhook.get("objectSelector"))
        self.conditions: list[Object] = webhook.get("matchConditions") or []
        self.ignores_failure = webhook.get("failurePolicy") == "Ignore"
        self.seconds: int = webhook.get("timeoutSeconds") or DEFAULT_SECONDS
        self.side_effects: str | None = webhook.get("sideEffects")
        accepted = webhook.get("admissionReviewVersions") or ()
        self.review_version: str = next((one for one in accepted if one in VERSIONS), "")
        """The version of the reviews that it is sent; empty if it accepts none that there is."""
        self.is_reinvoked = webhook.get("reinvocationPolicy") == "IfNeeded"
        self.client_config: Object = webhook.get("clientConfig") or {}
        self.function: Function | None = None
        """The function that is called instead of a server."""
        size = sum(len(one.get("expression") or "") for one in self.conditions)
        self.match_conditions = Computed(self._compile, is_long=size > OFF_LOOP_EXPRESSIONS)
        """The compiled conditions; compiled at the first use, which also imports the expression language."""

    @classmethod
    def of_function(cls, function: Function) -> Webhook:
        """Return the webhook of a function."""
        webhook = cls(CONFIGURATION, function.webhook, f"{CONFIGURATION}/{function.webhook['name']}")
        webhook.function = function
        return webhook

    def accepts(self, match: ResourceMatch) -> bool:
        """Return True if objects of the kind that a rule leads to can be shown to the webhook."""
        return self.function is None or match.kind == self.function.kind

    def _compile(self) -> MatchConditions:
        from kapi.server.admission.matchconditions import MatchConditions

        return MatchConditions(self.conditions, ignores_failure=self.ignores_failure)


class Candidate:
    """A webhook whose rules cover a request."""

    # Not a named tuple, like others here: compiled code finds the attributes of a class faster than those of a tuple.
    __slots__ = ("match", "position", "webhook")

    def __init__(self, position: int, webhook: Webhook, match: ResourceMatch) -> None:
        self.position = position
        """Its place among the webhooks of all configurations."""
        self.webhook = webhook
        self.match = match


class Configurations:
    """All configurations of one kind, in the order of their names; functions of this process come first."""

    def __init__(
        self, catalog: Catalog, resource: str, forget: Callable[[], None], functions: Sequence[Function] = ()
    ) -> None:
        """`forget` is called when the answers of `candidates` have changed."""
        self._functions = [Webhook.of_function(function) for function in functions]
        self._catalog = catalog
        self._store = catalog.store(resource)
        self._forget = forget
        self._compiled: dict[str, tuple[int, list[Webhook]]] = {}
        """The revision of each configuration, by storage key, and its webhooks."""
        self._preparing = asyncio.Lock()
        self._webhooks: list[Webhook] | None = None
        """The webhooks of all of them; None until they are wanted, and after a change."""
        self._store.cache.listen(self._changed)

    def _changed(self, events: Sequence[Event]) -> None:
        self._webhooks = None
        self._forget()

    async def prepare(self) -> None:
        """Compile large configurations that have changed, off the event loop."""
        if self._webhooks is not None:
            return
        async with self._preparing:
            for item in self._store.cache.items():
                if len(item.body) >= OFF_LOOP_BYTES and self._known(item) is None:
                    with self._store.hub.invalid.guard(item.key, "admission webhooks"):
                        self._compiled[item.key] = await off_loop(self._read, item)

    def candidates(self, operation: str, resource: Resource, subresource: str) -> tuple[Candidate, ...]:
        """Return the webhooks whose rules cover a request, in the order in which they are called."""
        if is_exempt(resource):
            return ()
        found = []
        request = RequestKind(operation, resource, subresource, self._catalog)
        for position, webhook in enumerate(self._current()):
            match = next((one for one in webhook.rules.matches(request) if webhook.accepts(one)), None)
            if match is not None:
                found.append(Candidate(position, webhook, match))
        return tuple(found)

    def _current(self) -> list[Webhook]:
        if self._webhooks is None:
            compiled: dict[str, tuple[int, list[Webhook]]] = {}
            for item in self._store.cache.items():
                with self._store.hub.invalid.guard(item.key, "admission webhooks"):
                    compiled[item.key] = self._read(item)
            self._compiled = compiled
            stored = [webhook for _, webhooks in compiled.values() for webhook in webhooks]
            self._webhooks = [*self._functions, *stored]
        return self._webhooks

    def _known(self, item: Item) -> tuple[int, list[Webhook]] | None:
        known = self._compiled.get(item.key)
        return known if known is not None and known[0] == item.revision else None

    def _read(self, item: Item) -> tuple[int, list[Webhook]]:
        """Return the webhooks of a configuration; those that were compiled before, if it has not changed."""
        known = self._known(item)
        if known is not None:
            return known
        configuration = self._store.decode(item)
        seen: dict[str, int] = {}
        webhooks = []
        for webhook in configuration.get("webhooks") or ():
            name = webhook.get("name", "")
            number = seen[name] = seen.get(name, -1) + 1
            webhooks.append(Webhook(item.name, webhook, f"{item.name}/{name}/{number}"))
        return item.revision, webhooks
