"""Predicates: functions from an event to a boolean that filter what a controller reconciles.

Any function from an event to a boolean is a predicate. Those here read what the cache has decoded anyway, or decode the
one field they need. The `..._changed` ones filter updates; creations and deletions always pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from kapi.api.selectors import LabelSelector
from kapi.controller.event import Created, Deleted, Event, Updated

if TYPE_CHECKING:
    from kapi.informer.cached import Cached

T = TypeVar("T")

Predicate: TypeAlias = Callable[[Event[T]], bool]


def generation_changed(event: Event[Any]) -> bool:
    """The spec changed; for kinds that count generations, and that count no more than the spec.

    Changes of metadata and, where status is a subresource, of status do not pass, not even when another client cleared
    the status. Kinds without a generation (ConfigMap, Secret ...) never change it.
    """
    return not isinstance(event, Updated) or event.old.generation != event.object.generation


def resource_version_changed(event: Event[Any]) -> bool:
    """The resourceVersion changed: resyncs do not pass."""
    return not isinstance(event, Updated) or event.old.resource_version != event.object.resource_version


def label_changed(event: Event[Any]) -> bool:
    """A label came, went or changed."""
    return not isinstance(event, Updated) or event.old.labels != event.object.labels


def annotation_changed(event: Event[Any]) -> bool:
    """An annotation came, went or changed."""
    return not isinstance(event, Updated) or _annotations(event.old) != _annotations(event.object)


def has_labels(selector: str | LabelSelector) -> Predicate[Any]:
    """Objects that a selector (`tier=web,!canary`) selects, in their latest state."""
    matches = (LabelSelector.parse(selector) if isinstance(selector, str) else selector).matches
    return lambda event: matches(event.object.labels)


def in_namespaces(*namespaces: str) -> Predicate[Any]:
    """Objects of these namespaces."""
    wanted = frozenset(namespaces)
    return lambda event: event.object.key.namespace in wanted


def of_object(check: Callable[[T], bool]) -> Predicate[T]:
    """Objects that pass a check, in their latest state. Decodes the object each time: put cheaper predicates first."""
    return lambda event: check(event.object.object())


def on(
    *,
    create: Callable[[Created[T]], bool] | bool = True,
    update: Callable[[Updated[T]], bool] | bool = True,
    delete: Callable[[Deleted[T]], bool] | bool = True,
) -> Predicate[T]:
    """A rule of its own for each kind of event; unless given, all such events count."""

    def decide(event: Event[T]) -> bool:
        match event:
            case Created():
                return create if isinstance(create, bool) else create(event)
            case Updated():
                return update if isinstance(update, bool) else update(event)
            case Deleted():
                return delete if isinstance(delete, bool) else delete(event)

    return decide


def and_(*predicates: Predicate[T]) -> Predicate[T]:
    """All of them; true for none."""
    return lambda event: all(predicate(event) for predicate in predicates)


def or_(*predicates: Predicate[T]) -> Predicate[T]:
    """Any of them; false for none."""
    return lambda event: any(predicate(event) for predicate in predicates)


def not_(predicate: Predicate[T]) -> Predicate[T]:
    """The opposite."""
    return lambda event: not predicate(event)


class _AnnotatedMetadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _AnnotatedMetadata


_decode_annotated = msgspec.json.Decoder(_Annotated).decode


def _annotations(cached: Cached[Any]) -> dict[str, str]:
    return _decode_annotated(cached.raw).metadata.annotations or {}
