"""From a request body to an object: media type, limits, format, kind, schema, strictness. Nothing here stores anything.

YAML is parsed off the event loop, because it is slow; so are long bodies in JSON and protobuf, and what they hold is
brought into the shape of its schema there. The schema of a custom kind is compiled there before its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.errors import BadRequest, Invalid, RequestEntityTooLarge, UnsupportedMediaType
from kapi.api.fielderror import invalid
from kapi.api.go.types import TYPE_META, json_type, unmarshal_error
from kapi.api.limits import BODY_BYTES, ECHOED_BODY_BYTES, OFF_LOOP_BYTES
from kapi.api.meta import GroupKind, GroupVersion
from kapi.base.offloop import off_loop
from kapi.codec import json, protobuf, yaml
from kapi.codec.errors import DecodeError, UnknownMessage
from kapi.codec.negotiate import PROTOBUF, YAML, body_type
from kapi.registry.custom.store import compile_schema
from kapi.registry.initializers import coerce_initializers
from kapi.schema.builtin.typed import TypeMismatch
from kapi.schema.customschema import CustomSchema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.schema.builtin.typed import ObjectSchema
    from kapi.server.context import Context
    from kapi.server.transport.message import Request

_EMPTY_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_IMPLICIT = ("apiVersion", "kind", "metadata")


class Expectation(NamedTuple):
    """The kind and schema that a body must have."""

    gvk: GroupVersionKind
    schema: ObjectSchema
    older: tuple[str, ...] = ()
    """Older apiVersions with the same content, taken for the same."""
    is_custom: bool = False
    """True for a custom kind, whose objects must have apiVersion and kind."""


def check_size(request: Request) -> None:
    """Refuse a body that was too large to keep."""
    if request.oversized:
        raise RequestEntityTooLarge(f"limit is {BODY_BYTES}")


async def read_object(context: Context, expected: Expectation, *, validation: str) -> Object:
    """The object of a create or update; warnings go to the context, strict problems are raised."""
    request = context.request
    media = body_type(request.headers.get("content-type"))
    check_size(request)
    strict = validation != "Ignore"
    if media != YAML and len(request.body) < OFF_LOOP_BYTES:
        obj, duplicates = _parse(request.body, media, expected.gvk.kind, strict=strict)
    else:
        decode = context.services.large.decode
        obj, duplicates = await decode(_parse, request.body, media, expected.gvk.kind, strict=strict)
    _check_type_meta(obj, expected.gvk.kind, request.body)
    if obj.get("apiVersion") in expected.older:
        obj["apiVersion"] = expected.gvk.api_version
    if expected.is_custom:
        assert isinstance(expected.schema, CustomSchema)
        await compile_schema(expected.schema)
        _check_custom_kind(context, obj, expected.gvk, validation)
    else:
        check_kind(obj, expected.gvk)
    if duplicates and media == YAML and validation == "Strict":
        duplicates = [yaml.strict_error(duplicates)]
    initializers = context.services.catalog.initializers.is_active
    if len(request.body) < OFF_LOOP_BYTES:
        unknown = coerce(obj, expected, initializers=initializers)
    else:
        unknown = await off_loop(coerce, obj, expected, initializers=initializers)
    # Where unknown fields are not found by the decoder itself, those that are there twice come first.
    problems = duplicates + unknown if media == YAML or expected.is_custom else unknown + duplicates
    report(context, expected.gvk, problems, validation)
    if context.audit is not None:
        context.audit.request_object(obj)
    return obj


def _parse(body: bytes, media: str, kind: str, *, strict: bool) -> tuple[Object, list[str]]:
    duplicates: list[str] = []
    obj: Any
    try:
        if media == PROTOBUF:
            obj = protobuf.decode(body)
        elif media == YAML:
            obj, duplicates = yaml.decode_with_duplicates(body)
        elif strict:
            obj, duplicates = json.decode_with_duplicates(body)
        else:
            obj = json.decode(body)
    except UnknownMessage as error:
        raise UnsupportedMediaType(str(error)) from None
    except DecodeError as error:
        what = "" if media == YAML else "couldn't get version/kind; json parse error: "
        raise _unrecognized(kind, f"{what}{error}", body) from None
    if not isinstance(obj, dict):
        raise _unmarshalled(kind, unmarshal_error(json_type(obj), TYPE_META), body)
    return obj, duplicates


def _unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    if not body:
        shown = "<empty>"
    elif body[:1] == b"{":
        shown = body[:30].decode(errors="replace") + (" ..." if len(body) > 30 else "")
    else:
        shown = body[:30].hex() + (" ..." if len(body) > 30 else "")
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


def _unmarshalled(kind: str, problem: str, body: bytes) -> BadRequest:
    return _unrecognized(kind, f"couldn't get version/kind; json parse error: {problem}", body)


def _check_type_meta(obj: Object, kind: str, body: bytes) -> None:
    """Check that apiVersion and kind are strings, and that the version can be read."""
    for key, value in obj.items():
        if key in ("apiVersion", "kind") and value is not None and not isinstance(value, str):
            raise _unmarshalled(kind, unmarshal_error(json_type(value), "string", field=f".{key}"), body)
    api_version = obj.get("apiVersion") or ""
    if api_version.count("/") > 1:
        raise _unrecognized(kind, f"unexpected GroupVersion string: {api_version}", body)


def _check_custom_kind(context: Context, obj: Object, gvk: GroupVersionKind, validation: str) -> None:
    """The same as `check_kind` for a custom kind, which is not known by its words: it is asked for in other ones."""
    kind, api_version = obj.get("kind") or "", obj.get("apiVersion") or ""
    if not kind:
        body = context.request.body
        shown = body[:ECHOED_BODY_BYTES].decode(errors="replace") + (" ..." if len(body) > ECHOED_BODY_BYTES else "")
        why = f"Object 'Kind' is missing in '{shown}'"
        if validation != "Ignore":
            raise _unrecognized(gvk.kind, why, body)
        raise BadRequest(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {why}')
    if api_version != gvk.api_version:
        if kind == gvk.kind and GroupVersion.parse(api_version).group == gvk.group:
            found = gvk._replace(version=_version(api_version))
            report(context, found, _unknown_at(context, obj, found), validation)
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({gvk.api_version})"
        )
    if kind != gvk.kind:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        kind = kind[:ECHOED_BODY_BYTES]
        problem = invalid("kind", kind, f"must be {gvk.kind}")
        raise Invalid.of(GroupKind(gvk.group, kind), name if isinstance(name, str) else "", [problem])


def _unknown_at(context: Context, obj: Object, gvk: GroupVersionKind) -> list[str]:
    """Return the unknown fields of an object of another version than the endpoint's; of an unknown version, all."""
    other = context.services.catalog.find(gvk.group, gvk.version, context.served.resource)
    if other is None:
        return [f'unknown field "{key}"' for key in obj if key not in _IMPLICIT]
    return coerce(obj, Expectation(gvk, other.schema))


def check_kind(obj: Object, gvk: GroupVersionKind) -> None:
    """Check that apiVersion and kind, where they are given, are those of the endpoint."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    kind = gvk.kind if kind is None or kind == "" else kind
    api_version = gvk.api_version if api_version is None or api_version == "" else api_version
    if kind == gvk.kind and api_version == gvk.api_version:
        obj["kind"], obj["apiVersion"] = kind, api_version
        return
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


def coerce(obj: Object, expected: Expectation, *, initializers: bool = False) -> list[str]:
    """Bring a decoded object into its schema's shape, in place; returns what was unknown."""
    gvk = expected.gvk
    try:
        return shape_up(obj, expected.schema, initializers=initializers)
    except TypeMismatch as error:
        raise BadRequest(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {error}') from None


def shape_up(obj: Object, schema: ObjectSchema, *, initializers: bool = False) -> list[str]:
    """The same, raising what the schema raises; unknown fields come as complete texts.

    An empty managedFields asks to forget them; in a custom object it is as good as none. `initializers` is True if
    `metadata.initializers` is a field: no schema has it.
    """
    metadata = obj.get("metadata")
    forgets = isinstance(metadata, dict) and metadata.get("managedFields") == []
    pending = metadata.pop("initializers", None) if initializers and isinstance(metadata, dict) else None
    unknown = shape_up_metadata(obj, schema.coerce)
    if pending is not None:
        obj["metadata"]["initializers"] = coerce_initializers(pending)
    if forgets and not isinstance(schema, CustomSchema):
        obj["metadata"]["managedFields"] = [{}]
    return [f'unknown field "{path}"' for path in unknown]


def shape_up_metadata(obj: Object, coerce: Callable[[Object], list[str] | None]) -> list[str]:
    """Coerce an object, and drop empty lists and maps in its metadata, which mean nothing; returns unknown fields."""
    unknown = coerce(obj) or []
    metadata = obj.setdefault("metadata", {})
    for key in _EMPTY_METADATA:
        if key in metadata and not metadata[key]:
            del metadata[key]
    return unknown


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
