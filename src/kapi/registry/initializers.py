"""Initializers: objects that are invisible until a list of controllers has finished them, one after the other.

The form that dynamic admission had before webhooks (Kubernetes v1.7 to v1.13). An InitializerConfiguration names
initializers and the resources they are for. A new object of such a resource gets their names in
`metadata.initializers.pending`; the controller whose name is first changes the object and removes its name; when the
list is empty the object is initialized, and seen by everyone. A controller that sets `metadata.initializers.result`
fails the object, which is deleted.

This module has the rules about that field and the configurations in force. The watch cache and the read handlers hide
objects; the admission plug-in (`server/admission/initializers.py`) adds the list, and asks who may change it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api import names
from kapi.api.errors import ApiError, NotFound, Timeout
from kapi.api.fielderror import invalid, required
from kapi.codec import json
from kapi.registry.request import CREATE
from kapi.schema.builtin.scalars import TypeMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.cache.watchcache import CacheHub, Event, Item, WatchCache
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.store import ReadyItem, Store

GROUP: Final = "admissionregistration.k8s.io"
VERSION: Final = "v1alpha1"
PLURAL: Final = "initializerconfigurations"
NAME: Final = f"{PLURAL}.{GROUP}"
PATH: Final = "metadata.initializers"
FAILURE: Final = "Failure"

_SEGMENTS: Final = "should be a domain with at least three segments separated by dots"
_DNS: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_DEPRECATION: Final = (
    "admissionregistration.k8s.io/v1alpha1 InitializerConfiguration was removed from Kubernetes in v1.14; "
    "use admissionregistration.k8s.io/v1 MutatingWebhookConfiguration or MutatingAdmissionPolicy"
)


def definition() -> Object:
    """Return the definition of InitializerConfiguration. It is served like a custom kind, and not stored."""
    texts: Object = {"type": "array", "items": {"type": "string", "maxLength": 253}, "maxItems": 64}
    resources = {
        **texts,
        "x-kubernetes-validations": [
            {"rule": "!self.exists(one, one.contains('/'))", "message": "must not specify subresources"}
        ],
    }
    name = {
        "type": "string",
        "maxLength": 253,
        "pattern": _DNS,
        "x-kubernetes-validations": [{"rule": "self.split('.').size() >= 3", "message": _SEGMENTS}],
    }
    rule = {
        "type": "object",
        "required": ["apiGroups", "apiVersions", "resources"],
        "properties": {"apiGroups": texts, "apiVersions": texts, "resources": resources},
    }
    initializer = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {**name, "description": "The name, of at least three segments, such as envoy.initializer.io."},
            "rules": {"type": "array", "items": rule, "maxItems": 64},
            "failurePolicy": {"type": "string", "enum": ["Ignore", "Fail"]},
        },
    }
    schema = {
        "type": "object",
        "description": "Initializers of new objects: the form of dynamic admission before webhooks.",
        "properties": {
            "initializers": {
                "type": "array",
                "items": initializer,
                "maxItems": 64,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        },
    }
    accepted = {
        "plural": PLURAL,
        "singular": "initializerconfiguration",
        "kind": "InitializerConfiguration",
        "listKind": "InitializerConfigurationList",
    }
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": NAME, "uid": "initializerconfigurations", "resourceVersion": "0"},
        "spec": {
            "group": GROUP,
            "names": accepted,
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "deprecated": True,
                    "deprecationWarning": _DEPRECATION,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
        "status": {
            "acceptedNames": accepted,
            "storedVersions": [VERSION],
            "conditions": [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")],
        },
    }


class InitializationFailed(ApiError):
    """The Status with which an initializer has failed an object."""

    def __init__(self, result: Object) -> None:
        message, code, reason = (result.get(key) for key in ("message", "code", "reason"))
        details = result.get("details")
        super().__init__(
            message if isinstance(message, str) else "initialization failed",
            details=details if isinstance(details, dict) else None,
        )
        self.code = code if isinstance(code, int) and 400 <= code < 600 else 500  # type: ignore[misc]
        self.reason = reason if isinstance(reason, str) else ""  # type: ignore[misc]


# -- the field --------------------------------------------------------------------------------------------------------


def coerce_initializers(value: Any) -> Object | None:
    """Return `metadata.initializers` of a request in its shape, None if it is null. Raises TypeMismatch."""
    if value is None:
        return None
    result = _object(value, PATH).get("result")
    pending = _object(value, PATH).get("pending")
    if not isinstance(pending, list | None):
        raise TypeMismatch(f"{PATH}.pending: must be a list")
    coerced: Object = {}
    if pending:
        coerced["pending"] = [_pending(one, f"{PATH}.pending[{index}]") for index, one in enumerate(pending)]
    if result is not None:
        coerced["result"] = _object(result, f"{PATH}.result")
    return coerced


def _object(value: Any, path: str) -> Object:
    if not isinstance(value, dict):
        raise TypeMismatch(f"{path}: must be an object")
    return value


def _pending(value: Any, path: str) -> Object:
    name = _object(value, path).get("name", "")
    if not isinstance(name, str):
        raise TypeMismatch(f"{path}.name: must be a string")
    return {"name": name}


def patching_initializers(apply: Callable[[Object], Object], document: Any) -> Callable[[Object], Object]:
    """Return a strategic merge that knows `metadata.initializers`, whose pending items are merged by name.

    No schema has the field, so that `apply` would replace the list.
    """
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or "initializers" not in metadata:
        return apply
    patch = metadata.pop("initializers")

    def applied(obj: Object) -> Object:
        state = obj["metadata"].pop("initializers", None)
        result = apply(obj)
        if patch is not None:
            result["metadata"]["initializers"] = _merged(state or {}, _object(patch, PATH))
        return result

    return applied


def _merged(state: Object, patch: Object) -> Object:
    pending = {one["name"]: one for one in state.get("pending") or ()}
    for index, value in enumerate(patch.get("pending") or ()):
        one = _object(value, f"{PATH}.pending[{index}]")
        directive, name = one.get("$patch"), _pending(one, f"{PATH}.pending[{index}]")["name"]
        if directive == "delete":
            pending.pop(name, None)
        elif directive == "replace":
            pending.clear()
        else:
            pending[name] = {"name": name}
    merged = {**state, **{key: value for key, value in patch.items() if not key.startswith("$")}}
    merged["pending"] = list(pending.values())
    return {key: value for key, value in merged.items() if value is not None}


def finish(metadata: Object) -> None:
    """Remove the field when the last initializer is done."""
    state = metadata.get("initializers")
    if state is not None and not state.get("pending") and not state.get("result"):
        del metadata["initializers"]


def has_failed(obj: Object) -> bool:
    """Return True if an initializer has failed the object: it is deleted then."""
    return bool((obj["metadata"].get("initializers") or {}).get("result"))


def is_unseen(write: Write, old: Object | None) -> bool:
    """Return True if a write makes an object that no client has seen: it is new, or its initializers finish it.

    What admission gives to new objects, or refuses of them, applies to the work of initializers too. Updates of the
    object itself are meant; sub-resources leave the list alone.
    """
    if write.operation == CREATE:
        return True
    return old is not None and not write.subresource and "initializers" in old["metadata"]


def initializer_errors(metadata: Object, before: Object | None) -> list[FieldError]:
    """Validate the field of a new object, or of a changed one."""
    state, old = metadata.get("initializers"), (before or {}).get("initializers")
    if state is None:
        return []
    errors: list[FieldError] = []
    for index, one in enumerate(state.get("pending") or ()):
        errors += [
            invalid(f"{PATH}.pending[{index}].name", one["name"], why) for why in names.qualified_name(one["name"])
        ]
    result = state.get("result")
    if result is not None and result.get("status") != FAILURE:
        errors.append(invalid(f"{PATH}.result.status", result.get("status", ""), f'Must be "{FAILURE}" if set'))
    if result is None and not state.get("pending"):
        errors.append(required(f"{PATH}.pending", "must be non-empty when result is not set"))
    if before is not None and old is None:
        errors.append(invalid(PATH, None, "field is immutable once initialization has completed"))
    return errors


# -- waiting ----------------------------------------------------------------------------------------------------------


async def wait_until_initialized(store: Store, item: Item, seconds: float) -> ReadyItem:
    """Return a new object when its initializers have finished it.

    Raises:
        ApiError: an initializer has failed it, it was deleted, or the time is up; then it stays as it is.
    """
    done: asyncio.Future[Item | None] = asyncio.get_running_loop().create_future()
    last = item

    def heard(events: Sequence[Event]) -> None:
        nonlocal last
        for event in events:
            if event.item.key != item.key or done.done():
                continue
            if event.deleted:
                done.set_result(None)
            elif event.item.is_uninitialized:
                last = event.item
            else:
                done.set_result(event.item)

    store.cache.listen(heard)
    try:
        current = store.cache.get(item.key)
        if current is not None and not current.is_uninitialized:
            return await store.fetch(item.namespace, item.name)
        async with asyncio.timeout(seconds):
            found = await done
    except TimeoutError:
        what = f"{store.resource} {item.name}"
        raise Timeout(f"Timeout: server has timed out waiting for the initialization of {what}") from None
    finally:
        store.cache.unlisten(heard)
    if found is None:
        raise _failure(store, last)
    (ready,) = await store.ready([found])
    return ready


def _failure(store: Store, item: Item) -> ApiError:
    """The reason for which an object was deleted before it was initialized."""
    state = json.decode(b"{" + item.body)["metadata"].get("initializers") or {}
    result = state.get("result")
    if not result:
        return NotFound.of(store.resource, item.name)
    return InitializationFailed(result)


# -- configurations ---------------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]

    def matches(self, resource: Resource) -> bool:
        """Return True if the rule is about a resource."""
        asked = ((self.groups, resource.group), (self.versions, resource.version), (self.resources, resource.resource))
        return all("*" in those or one in those for those, one in asked)


class Initializers:
    """The configurations in force; current before the write of one is answered."""

    def __init__(self, hub: CacheHub) -> None:
        self._hub = hub
        self._rules: dict[str, list[tuple[str, tuple[_Rule, ...]]]] = {}
        self.on_change: list[Callable[[], None]] = []

    def start(self, cache: WatchCache) -> None:
        """Read the stored configurations, and follow their changes."""
        for item in cache.items():
            self._take(item)
        cache.listen(self._heard)

    @property
    def is_active(self) -> bool:
        """True while there is a configuration, or an object that is not initialized."""
        return bool(self._rules) or self._hub.uninitialized > 0

    def names_for(self, resource: Resource) -> list[str]:
        """The initializers of new objects of a resource: in the order of configurations by name, then as written."""
        found = (
            name
            for _, initializers in sorted(self._rules.items())
            for name, rules in initializers
            if any(rule.matches(resource) for rule in rules)
        )
        return list(dict.fromkeys(found))

    def _heard(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.deleted:
                self._rules.pop(event.item.name, None)
            else:
                self._take(event.item)
        for changed in self.on_change:
            changed()

    def _take(self, item: Item) -> None:
        with self._hub.invalid.guard(item.key, "registry.initializers"):
            configuration = json.decode(b"{" + item.body)
            initializers = configuration.get("initializers") or ()
            self._rules[item.name] = [(one["name"], tuple(_rules(one.get("rules") or ()))) for one in initializers]


def _rules(rules: Iterable[Object]) -> Iterable[_Rule]:
    for rule in rules:
        yield _Rule(*(frozenset(rule.get(key) or ()) for key in ("apiGroups", "apiVersions", "resources")))
