"""The response of a webhook: a JSON document, or the reason why there is none.

The texts are those of client-go's REST client, which reads such responses in kube-apiserver; people search for
them. Nothing here knows what the document is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.go.text import quote
from kapi.api.go.types import TYPE_META, json_type, unmarshal_error
from kapi.api.limits import YAML_OFF_LOOP_BYTES
from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.httpconnection import Answer

JSON = "application/json"
QUOTED_BYTES = 2048
"""The number of bytes of an error page that are repeated."""

_STATUSES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_NOT_ACCEPTABLE = "the server was unable to respond with a content type that the client supports"


class Refused(Exception):
    """The answer cannot be used; the text says why."""


def document(answer: Answer) -> Object:
    """The document an answer brings. Raises `Refused`."""
    if not 200 <= answer.status <= 206:
        raise Refused(_failure(answer))
    if not answer.body:
        kind = answer.content_type or JSON
        raise Refused(f"0-length response with status code: {answer.status} and content type: {kind}")
    try:
        value = _decoded(answer.body)
    except DecodeError as error:
        raise Refused(f"couldn't get version/kind; json parse error: {error}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        wrong = unmarshal_error(json_type(value), TYPE_META)
        raise Refused(f"couldn't get version/kind; json parse error: {wrong}")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str | None):
            wrong = unmarshal_error(json_type(value[key]), "string", field=f".{key}")
            raise Refused(f"couldn't get version/kind; json parse error: {wrong}")
    return value


def _decoded(body: bytes) -> Any:
    """Decode an answer, which may be YAML in Kubernetes; reading that takes long, so only a short one is."""
    if body.lstrip()[:1] == b"{" or len(body) >= YAML_OFF_LOOP_BYTES:
        return json.decode(body)
    return yaml.decode(body)


def field(document: Object, key: str, kind: type, place: str, go_type: str) -> Any:
    """A field that must be of a type; None when it is not there. `place` is what Go calls the field."""
    value = document.get(key)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise Refused(unmarshal_error(json_type(value), go_type, field=place))
    return value


def check_kind(document: Object, group: str, version: str, kind: str) -> None:
    """Refuse a document that names another kind than a review of a version; one that names none is taken for it."""
    found, api_version = document.get("kind") or kind, document.get("apiVersion") or f"{group}/{version}"
    if (found, api_version) == (kind, f"{group}/{version}"):
        return
    other = "v1beta1" if version == "v1" else "v1"
    if (found, api_version) == (kind, f"{group}/{other}"):
        raise Refused(f"converting ({other}.{kind}) to ({version}.{kind}): unknown conversion")
    raise Refused(
        f'no kind {quote(found)} is registered for version {quote(api_version)} in scheme "pkg/runtime/scheme.go:111"'
    )


def _failure(answer: Answer) -> str:
    """Return the message of an error response: that of its Status if it is one, else the meaning of its code."""
    said = _status_message(answer.body)
    if said is not None:
        return said
    code, message = answer.status, _page(answer)
    if code in (403, 415):
        return message
    if code == 406:
        return _NOT_ACCEPTABLE if message in ("", "unknown") else message
    if code in _STATUSES:
        return _STATUSES[code]
    if code >= 500:
        return f"an error on the server ({quote(message)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


def _status_message(body: bytes) -> str | None:
    try:
        status = json.decode(body)
    except DecodeError:
        return None
    if not isinstance(status, dict) or status.get("kind") != "Status" or status.get("status") != "Failure":
        return None
    message = status.get("message", "")
    return message if isinstance(message, str) else None


def _page(answer: Answer) -> str:
    media = answer.content_type.partition(";")[0].strip().lower()
    if media and not media.startswith("text/"):
        return "unknown"
    return answer.body[:QUOTED_BYTES].decode(errors="replace").strip()
