"""Conversion of custom objects by webhook: what is asked, and what is believed of the answer.

One review carries many objects, and all of them are converted or none. A webhook may change anything but what makes an
object that object: its kind, name, namespace and uid must stay, and of its metadata only labels and annotations are
taken from the answer. What it gets wrong is told to the client in the reference's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.errors import PlainError
from kapi.api.fielderror import quote
from kapi.api.meta import GroupVersion
from kapi.api.objectmeta import validate_annotations
from kapi.api.selectors import validate_labels
from kapi.base.http import OutboundError
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.registry.encoding import copy_of
from kapi.registry.uid import new_uid
from kapi.server.webhooks.destination import destination, shown

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.http import Outbound
    from kapi.registry.strategy import Lookup

SECONDS = 30.0
BATCH = 1000
"""Objects in one review; more are asked about in turn."""
ANSWER_BYTES = 64 * 1024 * 1024
GROUP = "apiextensions.k8s.io"


class _Refused(Exception):
    """The answer cannot be used; the text says why."""


class WebhookConverter:
    """Converts the objects of one definition."""

    def __init__(self, conversion: Object, outbound: Outbound, lookup: Lookup) -> None:
        webhook = conversion.get("webhook") or {}
        self._config: Object = webhook.get("clientConfig") or {}
        known = [one for one in webhook.get("conversionReviewVersions", ()) if one in ("v1", "v1beta1")]
        self._review_version = known[0] if known else ""
        self._outbound = outbound
        self._lookup = lookup

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """The objects in another version, in order; those that are in it already are passed through."""
        result = list(objects)
        foreign = [index for index, obj in enumerate(objects) if obj["apiVersion"] != api_version]
        for first in range(0, len(foreign), BATCH):
            batch = foreign[first : first + BATCH]
            converted = await self._review([objects[index] for index in batch], api_version)
            for index, obj in zip(batch, converted, strict=True):
                result[index] = obj
        return result

    async def _review(self, objects: list[Object], api_version: str) -> list[Object]:
        first = objects[0]
        what = f"conversion webhook for {first['apiVersion']}, Kind={first['kind']}"
        if not self._review_version:
            raise PlainError("no supported conversion review versions")
        try:
            answers = await self._ask(objects, api_version)
        except _Refused as error:
            raise PlainError(f"{what} failed: {error}") from None
        if len(answers) != len(objects):
            raise PlainError(f"{what} returned {len(answers)} objects, expected {len(objects)}")
        converted: list[Object] = []
        for index, (obj, answer) in enumerate(zip(objects, answers, strict=True)):
            try:
                converted.append(_accepted(obj, answer, api_version))
            except _Refused as error:
                raise PlainError(f"{what} returned invalid converted object at index {index}: {error}") from None
        return converted

    async def _ask(self, objects: list[Object], api_version: str) -> list[Any]:
        uid = new_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{GROUP}/{self._review_version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
        }
        url = f"{shown(self._config)}?timeout={SECONDS:g}s"
        try:
            endpoint = destination(self._config, self._lookup)
            status, body = await self._outbound.post(endpoint, json.encode(review), seconds=SECONDS, limit=ANSWER_BYTES)
        except OutboundError as error:
            raise _Refused(f"Post {quote(url)}: {error}") from None
        if status != 200:
            raise _Refused(f"the server responded with the status code {status}")
        try:
            answer = json.decode(body)
        except DecodeError as error:
            raise _Refused(f"the answer is not JSON: {error}") from None
        return self._objects(answer, uid)

    def _objects(self, answer: Any, uid: str) -> list[Any]:
        if not isinstance(answer, dict):
            raise _Refused("the answer is not a ConversionReview")
        strict = self._review_version == "v1"
        expected, kind = f"{GROUP}/{self._review_version}", "ConversionReview"
        got = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
        if strict and got != f"{expected}, Kind={kind}":
            raise _Refused(f"expected webhook response of {expected}, Kind={kind}, got {got}")
        response = answer.get("response")
        if not isinstance(response, dict):
            raise _Refused("no response provided")
        if strict and response.get("uid", "") != uid:
            raise _Refused(f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid', '')))}")
        result = response.get("result")
        result = result if isinstance(result, dict) else {}
        if result.get("status") != "Success":
            message = result.get("message")
            raise _Refused(str(message) if message else _not_success(result.get("status", "")))
        objects = response.get("convertedObjects")
        return objects if isinstance(objects, list) else []


def _not_success(status: Any) -> str:
    return f"response.result.status was '{status}', not 'Success'"


def _accepted(obj: Object, answer: Any, api_version: str) -> Object:
    """A converted object, once it is seen to be the same object in the right version."""
    if not isinstance(answer, dict):
        raise _Refused("it is not an object")
    if answer.get("apiVersion") != api_version:
        expected, got = GroupVersion.parse(api_version), answer.get("apiVersion", "")
        raise _Refused(f"invalid groupVersion (expected {expected}, received {got})")
    if answer.get("kind") != obj["kind"]:
        raise _Refused(f"invalid kind (expected {obj['kind']}, received {answer.get('kind', '')})")
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict):
        raise _Refused("missing metadata in converted object")
    before = obj["metadata"]
    for key, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if metadata.get(key, "") != before.get(key, ""):
            raise _Refused(f"must have the same {name}: {before.get(key, '')} != {metadata.get(key, '')}")
    return {**answer, "metadata": _restored(before, metadata)}


def _restored(before: Object, after: Object) -> Object:
    """The metadata of the original, with the labels and annotations of the answer."""
    metadata: Object = copy_of(before)
    for key in ("labels", "annotations"):
        texts = after.get(key)
        if texts is None:
            metadata.pop(key, None)
            continue
        if not isinstance(texts, dict):
            raise _Refused(f"invalid metadata.{key} in converted object: it is not a map")
        for name, value in texts.items():
            if not isinstance(value, str):
                raise _Refused(f"metadata.{key}[{name}] must be a string in converted object")
        if texts != before.get(key, {}):
            check = validate_labels if key == "labels" else validate_annotations
            errors = check(texts, f"metadata.{key}")
            if errors:
                raise _Refused("; ".join(map(str, errors)))
        metadata[key] = texts
    return metadata
