"""Conversion webhooks: objects of a kind from one version to another, by functions, and the ConversionReview.

All objects of a review are converted, or none. A function decides about everything in an object except what makes it
that object: apiVersion and kind are set for it, and of the metadata only labels and annotations are taken from what it
returns, since that is where versions keep what the other one has no field for.

`ValueError` and `ApiError` mean that an object cannot be converted, and their message is returned to the caller;
of other errors the caller learns that there was one, and the log has the rest.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec
import structlog

from kapi.api.errors import ApiError
from kapi.api.scheme import SCHEME
from kapi.codec import json
from kapi.controller.webhook.review import MalformedReview, request_of, response_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.api.meta import Object
    from kapi.controller.webhook.admission import Review

H = TypeVar("H")
S = TypeVar("S")

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"

Converter: TypeAlias = "Callable[[Object, str], Object | Awaitable[Object]]"
"""Makes an object of another apiVersion out of an object. It may change what it is given."""

_log = structlog.get_logger("kapi.controller")


class ConversionFailed(ValueError):
    """An object cannot be converted; the message is returned to the caller."""


@dataclass(frozen=True, slots=True)
class Spoke(Generic[S, H]):
    """A version besides the hub, and the way there and back."""

    cls: type[S]
    to_hub: Callable[[S], H | Awaitable[H]]
    from_hub: Callable[[H], S | Awaitable[S]]


def through_hub(hub: type[H], spokes: Sequence[Spoke[Any, H]]) -> Converter:
    """Conversion between any two versions of a kind, by way of one that can hold everything the others can."""
    hub_gvk = SCHEME.gvk_of(hub)
    by_version: dict[str, Spoke[Any, H]] = {}
    for spoke in spokes:
        gvk = SCHEME.gvk_of(spoke.cls)
        if gvk.group_kind != hub_gvk.group_kind:
            raise ValueError(f"{gvk.group_kind} is not converted to {hub_gvk.group_kind}: versions of one kind are")
        if gvk.api_version in by_version or gvk == hub_gvk:
            raise ValueError(f"{gvk.api_version} is given twice")
        by_version[gvk.api_version] = spoke

    def spoke_of(api_version: str) -> Spoke[Any, H]:
        try:
            return by_version[api_version]
        except KeyError:
            known = ", ".join([hub_gvk.api_version, *by_version])
            raise ConversionFailed(f"{api_version} is not known here, only {known}") from None

    async def convert(obj: Object, api_version: str) -> Object:
        if obj.get("kind") != hub_gvk.kind:
            raise ConversionFailed(f"{obj.get('kind')} is not {hub_gvk.kind}")
        there = None if api_version == hub_gvk.api_version else spoke_of(api_version)
        here = obj["apiVersion"]
        if here == hub_gvk.api_version:
            middle = _read(obj, hub)
        else:
            spoke = spoke_of(here)
            middle = await _awaited(spoke.to_hub(_read(obj, spoke.cls)))
        return _written(middle if there is None else await _awaited(there.from_hub(middle)))

    return convert


def conversion(convert: Converter) -> Review:
    """The reviews of a conversion webhook."""

    async def answered(review: Any, /) -> Object:
        raw = request_of(review, API_VERSION, KIND)
        wanted, objects = raw.get("desiredAPIVersion"), raw.get("objects")
        if not isinstance(wanted, str) or not wanted:
            raise MalformedReview("the request has no desiredAPIVersion")
        if not isinstance(objects, list) or not all(isinstance(one, dict) for one in objects):
            raise MalformedReview("the objects of the request are no list of objects")
        converted = []
        for obj in objects:
            try:
                converted.append(await _converted(convert, obj, wanted))
            except Exception as error:
                result = {"status": "Failure", "message": _message(error, obj, wanted)}
                return response_to(raw["uid"], {"convertedObjects": [], "result": result}, API_VERSION, KIND)
        response = {"convertedObjects": converted, "result": {"status": "Success"}}
        return response_to(raw["uid"], response, API_VERSION, KIND)

    return answered


async def _converted(convert: Converter, obj: Object, wanted: str) -> Object:
    if not isinstance(obj.get("apiVersion"), str) or not isinstance(obj.get("kind"), str):
        raise ConversionFailed("the object does not say what it is")
    if obj["apiVersion"] == wanted:
        return obj
    # The function gets a copy: it may change it, and what it must not change is taken from the original.
    result = await _awaited(convert(json.decode(json.encode(obj)), wanted))
    if not isinstance(result, dict):
        raise TypeError(f"a conversion returned {type(result).__name__}: expected the object as a dictionary")
    return {
        **result,
        "apiVersion": wanted,
        "kind": obj["kind"],
        "metadata": _metadata(obj.get("metadata"), result.get("metadata")),
    }


def _metadata(original: Any, converted: Any) -> Object:
    kept = dict(original) if isinstance(original, dict) else {}
    said = converted if isinstance(converted, dict) else {}
    for key in ("labels", "annotations"):
        if said.get(key):
            kept[key] = said[key]
        else:
            kept.pop(key, None)
    return kept


def _message(error: Exception, obj: Object, wanted: str) -> str:
    metadata = obj.get("metadata")
    parts = metadata if isinstance(metadata, dict) else {}
    name = "/".join(str(parts[key]) for key in ("namespace", "name") if parts.get(key))
    subject = f"cannot convert {obj.get('kind')} {name} to {wanted}"
    if isinstance(error, ValueError | ApiError):
        return f"{subject}: {error}"
    _log.error("a conversion failed", kind=obj.get("kind"), object=name, to=wanted, exc_info=error)
    return f"{subject}: the webhook failed; its log says why"


def _read(obj: Object, cls: type[S]) -> S:
    try:
        return msgspec.json.decode(json.encode(obj), type=cls)
    except msgspec.ValidationError as error:
        raise ConversionFailed(str(error)) from None


def _written(obj: Any) -> Object:
    return cast("Object", msgspec.to_builtins(obj))


async def _awaited(value: S | Awaitable[S]) -> S:
    return await value if inspect.isawaitable(value) else value
