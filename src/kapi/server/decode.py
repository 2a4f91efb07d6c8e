"""From a request body to an object: media type, limits, format, kind, schema, strictness. Nothing here stores anything.

YAML is parsed off the event loop, because it is slow; JSON and protobuf are not, because the limit on bodies bounds
them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.errors import BadRequest, RequestEntityTooLarge, UnsupportedMediaType
from kapi.api.meta import GroupVersion
from kapi.codec import json, protobuf, yaml
from kapi.codec.errors import DecodeError, UnknownMessage
from kapi.codec.limits import BODY_BYTES, PROTOBUF_OFF_LOOP_BYTES
from kapi.codec.negotiate import PROTOBUF, YAML, body_type
from kapi.schema.typed import TypeMismatch

if TYPE_CHECKING:
    from kapi.api.meta import GroupVersionKind, Object
    from kapi.schema.typed import ObjectSchema
    from kapi.server.context import Context
    from kapi.server.message import Request

_EMPTY_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_GO_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class Expectation(NamedTuple):
    """What a body must be."""

    gvk: GroupVersionKind
    schema: ObjectSchema
    older: tuple[str, ...] = ()
    """Older apiVersions with the same content, taken for the same."""


def check_size(request: Request) -> None:
    """Refuse a body that was too large to keep."""
    if request.oversized:
        raise RequestEntityTooLarge(f"limit is {BODY_BYTES}")


async def read_object(context: Context, expected: Expectation, *, validation: str) -> Object:
    """The object of a create or update; warnings go to the context, strict problems are raised."""
    request = context.request
    media = body_type(request.headers.get("content-type"))
    check_size(request)
    obj, duplicates = await _parse(request.body, media, expected.gvk.kind, strict=validation != "Ignore")
    if obj.get("apiVersion") in expected.older:
        obj["apiVersion"] = expected.gvk.api_version
    check_kind(obj, expected.gvk)
    if duplicates and media == YAML and validation == "Strict":
        duplicates = [yaml.strict_error(duplicates)]
    problems = coerce(obj, expected) + duplicates
    report(context, expected.gvk, problems, validation)
    return obj


async def _parse(body: bytes, media: str, kind: str, *, strict: bool) -> tuple[Object, list[str]]:
    duplicates: list[str] = []
    obj: Any
    try:
        if media == PROTOBUF:
            obj = (
                protobuf.decode(body)
                if len(body) <= PROTOBUF_OFF_LOOP_BYTES
                else await asyncio.to_thread(protobuf.decode, body)
            )
        elif media == YAML:
            obj, duplicates = await asyncio.to_thread(yaml.decode_with_duplicates, body)
        elif strict:
            obj, duplicates = json.decode_with_duplicates(body)
        else:
            obj = json.decode(body)
    except UnknownMessage as error:
        raise UnsupportedMediaType(str(error)) from None
    except DecodeError as error:
        raise _unrecognized(kind, f"json parse error: {error}", body) from None
    if not isinstance(obj, dict):
        kinds = {list: "array", str: "string", bool: "bool", type(None): "null"}
        what = kinds.get(type(obj), "number")
        why = f"json parse error: json: cannot unmarshal {what} into Go value of type {_GO_META}"
        raise _unrecognized(kind, why, body)
    return obj, duplicates


def _unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    if not body:
        shown = "<empty>"
    elif body[:1] == b"{":
        shown = body[:30].decode(errors="replace") + (" ..." if len(body) > 30 else "")
    else:
        shown = body[:30].hex() + (" ..." if len(body) > 30 else "")
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; {why} ({shown})"
    )


def check_kind(obj: Object, gvk: GroupVersionKind) -> None:
    """What the object says it is must be what the endpoint serves; saying nothing is fine."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    kind = gvk.kind if kind is None or kind == "" else kind
    api_version = gvk.api_version if api_version is None or api_version == "" else api_version
    if kind == gvk.kind and api_version == gvk.api_version:
        obj["kind"], obj["apiVersion"] = kind, api_version
        return
    must = f"the object provided is unrecognized (must be of type {gvk.kind})"
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise BadRequest(f"{must}: kind and apiVersion must be strings")
    if api_version.count("/") > 1:
        raise BadRequest(f"{must}: unexpected GroupVersion string: {api_version}")
    prefix = f'{kind} in version "{_version(api_version)}" cannot be handled as a {gvk.kind}'
    if GroupVersion.parse(api_version).group != gvk.group:
        raise BadRequest(f'{prefix}: no kind "{kind}" is registered for version "{api_version}" in this server')
    if api_version != gvk.api_version:
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({gvk.api_version})"
        )
    family = gvk.group.partition(".")[0] or "core"
    raise BadRequest(
        f"{prefix}: converting ({_version(api_version)}.{kind}) to ({family}.{gvk.kind}): unknown conversion"
    )


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]


def coerce(obj: Object, expected: Expectation) -> list[str]:
    """Bring a decoded object into its schema's shape, in place; returns what was unknown."""
    gvk = expected.gvk
    try:
        return shape_up(obj, expected.schema)
    except TypeMismatch as error:
        raise BadRequest(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}') from None


def shape_up(obj: Object, schema: ObjectSchema) -> list[str]:
    """The same, raising what the schema raises; unknown fields come as complete texts.

    Empty lists and maps in metadata mean nothing and go, but for an empty managedFields, which asks to forget them.
    """
    metadata = obj.get("metadata")
    forgets = isinstance(metadata, dict) and metadata.get("managedFields") == []
    unknown = schema.coerce(obj)
    metadata = obj.setdefault("metadata", {})
    for key in _EMPTY_METADATA:
        if key in metadata and not metadata[key]:
            del metadata[key]
    if forgets:
        metadata["managedFields"] = [{}]
    return [f'unknown field "{path}"' for path in unknown]


def report(context: Context, gvk: GroupVersionKind, problems: list[str], validation: str) -> None:
    """Unknown and duplicate fields: ignored, warned about, or refused."""
    if not problems or validation == "Ignore":
        return
    if validation == "Strict":
        raise BadRequest(
            f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: '
            f"strict decoding error: {', '.join(problems)}"
        )
    context.warnings += problems
