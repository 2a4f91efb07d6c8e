"""Conversion of custom objects by webhook: what is asked, and what is believed of the answer.

One review carries many objects, and all of them are converted or none. A webhook may change anything but what makes an
object that object: its kind, name, namespace and uid must stay, and of its metadata only labels and annotations are
taken from the answer. Its mistakes are reported to the client in the words of kube-apiserver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.errors import PlainError
from kapi.api.go.text import quote
from kapi.api.go.types import ANY_MAP, json_type, type_name, unmarshal_error
from kapi.api.objectmeta import validate_annotations
from kapi.api.selectors import validate_labels
from kapi.base.http import OutboundError
from kapi.codec import json
from kapi.registry.encoding import copy_of
from kapi.registry.uid import new_uid
from kapi.server.webhooks.answer import Refused, check_kind, document, field
from kapi.server.webhooks.destination import destination

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.base.http import Outbound
    from kapi.registry.strategy import Lookup
    from kapi.server.serviceaddress import ServiceOverrides

SECONDS = 30.0
BATCH = 1000
"""Objects in one review; more are asked about in turn."""
BATCH_BYTES = 4 * 1024 * 1024
ANSWER_BYTES = 16 * 1024 * 1024
"""Several times the largest question: an object may grow, but reading the answer must not take long either."""
GROUP = "apiextensions.k8s.io"
KIND = "ConversionReview"

_EMPTY_RESPONSE: Final[dict[str, Any]] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
"""kube-apiserver sends one along, and there are webhooks that fill it in."""


class _InvalidObject(Exception):
    """One converted object is not what it should be; `one` and `many` are how that is put."""

    def __init__(self, one: str, many: str, why: str) -> None:
        super().__init__(why)
        self.one = one
        self.many = many


class WebhookConverter:
    """Converts the objects of one definition, each review within so many `seconds`."""

    def __init__(
        self,
        conversion: Object,
        outbound: Outbound,
        lookup: Lookup,
        *,
        seconds: float = SECONDS,
        overrides: ServiceOverrides | None = None,
    ) -> None:
        webhook = conversion.get("webhook") or {}
        self._config: Object = webhook.get("clientConfig") or {}
        known = [one for one in webhook.get("conversionReviewVersions", ()) if one in ("v1", "v1beta1")]
        self._version = known[0] if known else ""
        self._outbound = outbound
        self._lookup = lookup
        self._seconds = seconds
        self._overrides = overrides

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """The objects in another version, in order; those that are in it already are passed through."""
        result = list(objects)
        foreign: list[int] = []
        for index, obj in enumerate(objects):
            if obj["apiVersion"] == api_version:
                continue
            if "metadata" in obj:
                foreign.append(index)
            else:
                # Nothing but a kind: what the ownership of fields begins with. There is nothing to ask about.
                result[index] = {**obj, "apiVersion": api_version}
        for batch, encoded in _batches(objects, foreign):
            converted = await self._review([objects[index] for index in batch], encoded, api_version)
            for index, obj in zip(batch, converted, strict=True):
                result[index] = obj
        return result

    async def _review(self, objects: list[Object], encoded: Sequence[msgspec.Raw], api_version: str) -> list[Object]:
        first = objects[0]
        what = f"conversion webhook for {first['apiVersion']}, Kind={first['kind']}"
        if not self._version:
            raise PlainError("no supported conversion review versions")
        try:
            answers = await self._ask(encoded, api_version)
        except (Refused, OutboundError) as error:
            raise PlainError(f"{what} failed: {error}") from None
        if len(answers) != len(objects):
            raise PlainError(f"{what} returned {len(answers)} objects, expected {len(objects)}")
        converted: list[Object] = []
        for index, (obj, answer) in enumerate(zip(objects, answers, strict=True)):
            try:
                converted.append(_accepted(obj, answer, api_version))
            except _InvalidObject as error:
                told = error.one if len(objects) == 1 else error.many.format(index)
                raise PlainError(f"{what} {told}: {error}" if told else str(error)) from None
        return converted

    async def _ask(self, objects: Sequence[msgspec.Raw], api_version: str) -> list[Any]:
        uid = new_uid()
        review = {
            "kind": KIND,
            "apiVersion": f"{GROUP}/{self._version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
            "response": _EMPTY_RESPONSE,
        }
        endpoint = destination(self._config, self._lookup, seconds=self._seconds, overrides=self._overrides)
        answer = await self._outbound.post(endpoint, json.encode(review), seconds=self._seconds, limit=ANSWER_BYTES)
        return self._objects(document(answer), uid)

    def _objects(self, answer: Object, uid: str) -> list[Any]:
        check_kind(answer, GROUP, self._version, KIND)
        response = field(answer, "response", dict, "ConversionReview.response", f"{self._version}.ConversionResponse")
        result, got = _result(response or {}), _text(response or {}, "uid")
        # What v1beta1 did not check at first is not checked for it to this day.
        strict = self._version == "v1"
        if strict and not (answer.get("kind") and answer.get("apiVersion")):
            named = f"{_group_version(answer.get('apiVersion'))}, Kind={answer.get('kind') or ''}"
            raise Refused(f"expected webhook response of {GROUP}/v1, Kind={KIND}, got {named}")
        if response is None:
            raise Refused("no response provided")
        objects = field(
            response, "convertedObjects", list, "ConversionResponse.response.convertedObjects", "[]runtime.RawExtension"
        )
        if strict and got != uid:
            raise Refused(f"expected response.uid={quote(uid)}, got {quote(got)}")
        status, message = result
        if status != "Success":
            raise Refused(message or f"response.result.status was '{status}', not 'Success'")
        return objects or []


def _batches(objects: list[Object], indexes: list[int]) -> Iterator[tuple[list[int], list[msgspec.Raw]]]:
    """The objects at some indexes, encoded, in portions one review can carry."""
    batch: list[int] = []
    encoded: list[msgspec.Raw] = []
    size = 0
    for index in indexes:
        data = json.encode(objects[index])
        if batch and (len(batch) == BATCH or size + len(data) > BATCH_BYTES):
            yield batch, encoded
            batch, encoded, size = [], [], 0
        batch.append(index)
        encoded.append(msgspec.Raw(data))
        size += len(data)
    if batch:
        yield batch, encoded


def _text(response: Object, key: str) -> str:
    text: str = field(response, key, str, f"ConversionResponse.response.{key}", "types.UID") or ""
    return text


def _result(response: Object) -> tuple[str, str]:
    """Status and message of a response's result."""
    result = field(response, "result", dict, "ConversionResponse.response.result", "v1.Status") or {}
    status, message = (
        field(result, key, str, f"Status.response.result.{key}", "string") or "" for key in ("status", "message")
    )
    return status, message


def _group_version(api_version: str | None) -> str:
    """An apiVersion as Go prints it in front of a kind."""
    return api_version if api_version and "/" in api_version else f"/{api_version or ''}"


# -- one object -------------------------------------------------------------------------------------------------------


def _accepted(obj: Object, answer: Any, api_version: str) -> Object:
    """A converted object, once it is seen to be the same object in the right version."""
    kind, got = _named(answer)
    if got != api_version:
        raise _misplaced(f"invalid groupVersion (expected {api_version}, received {got})")
    if kind != obj["kind"]:
        raise _misplaced(f"invalid kind (expected {obj['kind']}, received {kind})")
    before = obj["metadata"]
    found = answer.get("metadata")
    metadata = found if isinstance(found, dict) else {}
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        wanted, given = before.get(key, ""), metadata.get(key, "")
        given = given if isinstance(given, str) else ""
        if wanted != given:
            why = f"must have the same {name}: {wanted} != {given}"
            raise _InvalidObject("returned invalid object", "returned invalid converted object at index {}", why)
    if not isinstance(found, dict):
        wrong = f"invalid metadata of type {type_name(found)}" if "metadata" in answer else "missing metadata"
        raise _wrong_metadata(f"{wrong} in converted object")
    return {**answer, "metadata": _restored(before, metadata)}


def _named(answer: Any) -> tuple[str, str]:
    """The kind and the apiVersion of something that should be an object."""
    if answer is None:
        raise _unreadable("unexpected end of JSON input")
    if not isinstance(answer, dict):
        raise _unreadable(unmarshal_error(json_type(answer), ANY_MAP))
    kind, api_version = answer.get("kind"), answer.get("apiVersion")
    api_version = api_version if isinstance(api_version, str) else ""
    if not isinstance(kind, str) or not kind or api_version.count("/") > 1:
        # The object itself is not repeated: such texts end up in logs, and it may hold secrets.
        raise _unreadable(f"Object 'Kind' is missing in '{'{...}' if answer else '{}'}'")
    return kind, api_version


def _unreadable(why: str) -> _InvalidObject:
    return _InvalidObject("", "returned invalid converted object at index {}", why)


def _misplaced(why: str) -> _InvalidObject:
    return _InvalidObject("returned invalid object at index 0", "returned invalid converted object at index {}", why)


def _wrong_metadata(why: str) -> _InvalidObject:
    return _InvalidObject("returned invalid metadata", "returned invalid metadata in object at index {}", why)


def _restored(before: Object, after: Object) -> Object:
    """The metadata of the original, with the labels and annotations of the answer."""
    metadata: Object = copy_of(before)
    for key in ("labels", "annotations"):
        texts = after.get(key)
        if texts is None:
            metadata.pop(key, None)
            continue
        if not isinstance(texts, dict):
            raise _wrong_metadata(f"invalid metadata.{key} of type {type_name(texts)} in converted object")
        for name, value in texts.items():
            if not isinstance(value, str):
                why = f"metadata.{key}[{name}] must be a string, but is {type_name(value)} in converted object"
                raise _wrong_metadata(why)
        if texts != before.get(key, {}):
            _check_texts(key, texts)
        metadata[key] = texts
    return metadata


def _check_texts(key: str, texts: dict[str, str]) -> None:
    """Return True if changed labels or annotations are valid."""
    errors: list[FieldError]
    if key == "labels":
        errors = validate_labels(texts, "metadata.labels")
    else:
        errors = validate_annotations(texts, "metadata.annotation")
    if errors:
        told = list(dict.fromkeys(map(str, errors)))
        raise _wrong_metadata(told[0] if len(told) == 1 else f"[{', '.join(told)}]")
