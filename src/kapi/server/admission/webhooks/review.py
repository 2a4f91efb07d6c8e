"""The AdmissionReview: what a webhook is asked, and what is accepted as its answer.

v1 checks an answer strictly. What v1beta1 did not check at first is not checked for it to this day. All texts are those
of kube-apiserver.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.api.go.text import quote
from kapi.api.go.types import json_type, unmarshal_error
from kapi.schema.builtin.typed import TypeMismatch, kind_schema
from kapi.server.admission.webhooks.errors import InvalidResponse
from kapi.server.admission.webhooks.plainreview import decode_plain
from kapi.server.webhooks.answer import Refused, check_kind, field

if TYPE_CHECKING:
    from kapi.api.meta import Object

GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
VERSIONS: Final = ("v1", "v1beta1")
JSON_PATCH: Final = "JSONPatch"

_NULL: Final = b"null"
_HEADS: Final = {
    version: f'{{"kind":"{KIND}","apiVersion":"{GROUP}/{version}","request":{{"uid":"'.encode() for version in VERSIONS
}
"""The beginning of a review, up to the uid of its request."""
_V1: Final = f"{GROUP}/v1"
_is_base64 = re.compile(r"[A-Za-z0-9+/\r\n]*=*[\r\n=]*").fullmatch
_not_base64 = re.compile(r"[^A-Za-z0-9+/\r\n]").search


class AdmissionResponse(NamedTuple):
    """The answer of a webhook."""

    allowed: bool
    status: Object | None
    patch: bytes
    patch_type: str
    annotations: dict[str, str]
    warnings: list[str]


def encode_review(version: str, uid: str, request: bytes, obj: bytes | None, old: bytes | None) -> bytes:
    """Return the review that asks about a request, of which `encode_request` has made the part after the uid.

    The objects are encoded already, and are not copied more often than once: they are most of a review.
    """
    head = _HEADS[version]
    return b"".join((head, uid.encode(), request, b',"object":', obj or _NULL, b',"oldObject":', old or _NULL, b"}}"))


def read_plain_response(body: bytes, version: str, uid: str, *, mutating: bool) -> AdmissionResponse | None:
    """Return an answer that allows a request and is as most are, which is read in one go; None for any other.

    None says nothing about an answer: `read_response` reads those of every form, and knows what is wrong with one.
    """
    try:
        review = decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    response = review.response
    is_asked = version == "v1" and review.kind == KIND and review.api_version == _V1 and response.uid == uid
    if not is_asked or not response.allowed:
        return None
    # A patch has a type, and is for mutating webhooks only.
    patch = response.patch
    if response.patch_type != (JSON_PATCH if patch else None) or (patch and not mutating):
        return None
    warnings = [text for text in response.warnings if text] if response.warnings else []
    return AdmissionResponse(True, None, patch, response.patch_type or "", response.audit_annotations, warnings)


def read_response(review: Object, version: str, uid: str, *, mutating: bool) -> AdmissionResponse:
    """Return what a webhook answers.

    Raises:
        Refused: it is no AdmissionReview of the version.
        InvalidResponse: it breaks a rule for such answers.
    """
    check_kind(review, GROUP, version, KIND)
    response = field(review, "response", dict, f"{KIND}.response", f"{version}.AdmissionResponse")
    if response is None:
        raise InvalidResponse("webhook response was absent")
    found_uid = _text(response, "uid", "types.UID") or ""
    allowed = field(response, "allowed", bool, "AdmissionResponse.response.allowed", "bool")
    patch = _patch(response)
    patch_type = _text(response, "patchType", f"{version}.PatchType")
    result = AdmissionResponse(
        bool(allowed), _status(response), patch, patch_type or "", _annotations(response), _warnings(response)
    )
    if version == "v1":
        _check(review, found_uid, uid)
        _check_patch(patch, patch_type, mutating=mutating)
        return result if mutating else result._replace(patch=b"", patch_type="")
    return result._replace(patch=patch if mutating else b"", patch_type=JSON_PATCH if patch and mutating else "")


def _check(review: Object, found: str, uid: str) -> None:
    if found != uid:
        raise InvalidResponse(f"expected response.uid={quote(uid)}, got {quote(found)}")
    kind, api_version = review.get("kind") or "", review.get("apiVersion") or ""
    if not kind or not api_version:
        named = f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"
        raise InvalidResponse(f"expected webhook response of {GROUP}/v1, Kind={KIND}, got {named}")


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        for name, found in (("patch", bool(patch)), ("patchType", patch_type is not None)):
            if found:
                raise InvalidResponse(f"validating webhook may not return response.{name}")
        return
    if patch and patch_type is None:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise InvalidResponse('webhook returned invalid response.patchType of ""')


# -- the fields of an answer ------------------------------------------------------------------------------------------


def _text(response: Object, key: str, go_type: str) -> str | None:
    text: str | None = field(response, key, str, f"AdmissionResponse.response.{key}", go_type)
    return text


def _patch(response: Object) -> bytes:
    text = _text(response, "patch", "[]uint8") or ""
    try:
        if not _is_base64(text):
            raise ValueError
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        wrong = _not_base64(text)
        place = wrong.start() if wrong is not None else len(text.rstrip("=")) // 4 * 4
        raise Refused(f"illegal base64 data at input byte {place}") from None


def _annotations(response: Object) -> dict[str, str]:
    place = "AdmissionResponse.response.auditAnnotations"
    found: dict[str, Any] = field(response, "auditAnnotations", dict, place, "map[string]string") or {}
    for value in found.values():
        if not isinstance(value, str | None):
            raise Refused(unmarshal_error(json_type(value), "string", field=place))
    return {key: value or "" for key, value in found.items()}


def _warnings(response: Object) -> list[str]:
    place = "AdmissionResponse.response.warnings"
    found: list[Any] = field(response, "warnings", list, place, "[]string") or []
    for value in found:
        if not isinstance(value, str | None):
            raise Refused(unmarshal_error(json_type(value), "string", field=place))
    return [value for value in found if value]


def _status(response: Object) -> Object | None:
    status: Object | None = field(response, "status", dict, "AdmissionResponse.response.status", "v1.Status")
    if status is None:
        return None
    try:
        kind_schema("", "v1", "Status").coerce(status)
    except TypeMismatch as error:
        raise Refused(str(error).replace("Status.", "Status.response.status.")) from None
    return status
