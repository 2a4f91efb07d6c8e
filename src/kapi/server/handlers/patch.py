"""Patch: JSON Patch, JSON Merge Patch and Strategic Merge Patch, on main endpoints, /status and /scale.

A patch is applied to the current state in the version of the URL, and the result is written as an update. A patch
without resourceVersion never fails because of another writer: the write path applies it again to the newer state. The
result of applying a patch shares parts with the patch, and decoding changes it in place, so each application works on
its own copy of the patch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import ApiError, BadRequest, Invalid, PlainError
from kapi.api.fielderror import invalid
from kapi.api.go.text import format_value
from kapi.api.go.types import ANY_MAP, json_type, restore_error, unmarshal_error
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.meta import GroupKind
from kapi.api.patch import jsonpatch, strategicmerge
from kapi.api.patch import mergepatch as patches
from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapi.base.offloop import off_loop
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.codec.negotiate import patch_type
from kapi.registry import write as writepath
from kapi.registry.encoding import copy_of
from kapi.registry.initializers import patching_initializers
from kapi.registry.request import UPDATE
from kapi.registry.write import Source
from kapi.schema.builtin.typed import TypeMismatch
from kapi.server.handlers.apply import apply_with
from kapi.server.handlers.decode import check_size, shape_up
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import object_response, view_for
from kapi.server.handlers.write import check_name, match_namespace, new_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kapi.api.meta import Object
    from kapi.registry.updatescope import UpdateScope
    from kapi.schema.builtin.typed import ObjectSchema
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


async def patch(context: Context) -> Response:
    """PATCH of one object."""
    return await patch_with(context, context.served.stored.object_scope)


async def patch_status(context: Context) -> Response:
    """PATCH of /status."""
    return await patch_with(context, context.served.stored.status_scope)


async def patch_with(context: Context, scope: UpdateScope) -> Response:
    """Patch an object, as far as the scope of an endpoint allows."""
    if patch_media(context) == APPLY_PATCH:
        return await apply_with(context, scope)
    apply = await read_patch(context, context.served.schema)
    view = view_for(context, listing=False)
    options = write_options(context.query, "PatchOptions")
    source = _Patched(context, apply, options.field_validation)
    written = await writepath.update(new_write(context, UPDATE, options), source, scope)
    return await object_response(context, 200, view.one(written.item))


class _Patched(Source):
    """The wanted state of a patch: the patched current state."""

    is_patch = True

    def __init__(self, context: Context, apply: Callable[[Object, str], Object], validation: str) -> None:
        self._context = context
        self._apply = apply
        self._validation = validation

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """Apply the patch to the current state."""
        assert live is not None
        if self.off_loop:
            patched = await off_loop(lambda: self._apply(live(), self._validation))
        else:
            patched = self._apply(live(), self._validation)
        check_name(self._context, patched["metadata"])
        match_namespace(self._context, patched["metadata"])
        return patched


def patch_media(context: Context) -> str:
    """The kind of patch a request brings; custom resources have no strategic merge."""
    content_type = context.request.headers.get("content-type")
    return patch_type(content_type, custom=context.served.custom is not None)


async def read_patch(context: Context, schema: ObjectSchema) -> Callable[[Object, str], Object]:
    """Decode the patch of a request; returns the function that applies it to an object and checks the result."""
    request = context.request
    media = patch_media(context)
    check_size(request)
    if len(request.body) < OFF_LOOP_BYTES:
        document, duplicates = _decode(request.body, media)
    else:
        document, duplicates = await context.services.large.decode(_decode, request.body, media)
    if context.audit is not None:
        context.audit.request_patch(document)
    initializers = context.services.catalog.initializers.is_active
    apply = _applier(media, document, schema)
    if initializers and media == STRATEGIC_MERGE_PATCH:
        apply = patching_initializers(apply, document)
    warned = False
    is_strategic = media == STRATEGIC_MERGE_PATCH

    def applied(obj: Object, validation: str) -> Object:
        nonlocal warned
        kind, api_version = obj["kind"], obj["apiVersion"]
        patched = apply(obj)
        if is_strategic:
            _check_type_meta(patched, document)
            # kube-apiserver merges into a typed object, which cannot become another.
            patched["kind"], patched["apiVersion"] = kind, api_version
        elif context.served.custom is not None and not (patched.get("kind") and patched.get("apiVersion")):
            raise _undecodable(patched, "Object 'Kind' or 'apiVersion' is missing in the patched document")
        elif (patched.setdefault("kind", kind), patched.setdefault("apiVersion", api_version)) != (kind, api_version):
            raise _other_kind(context, patched, kind, api_version)
        try:
            problems = shape_up(patched, schema, initializers=initializers) + duplicates
        except TypeMismatch as error:
            if is_strategic:
                # kube-apiserver converts the result of a strategic merge to its type without encoding it first.
                raise _unconvertible(document, error.conversion_message) from None
            raise _undecodable(patched, str(error)) from None
        if problems and validation == "Strict":
            why = f"strict decoding error: {', '.join(problems)}"
            raise _unconvertible(document, why) if is_strategic else _undecodable(patched, why)
        if problems and validation == "Warn" and not warned:
            warned = True
            context.warnings += problems
        return patched

    return applied


def _other_kind(context: Context, patched: Object, kind: str, api_version: str) -> ApiError:
    """A patch made an object of one kind into one of another."""
    found = [patched["kind"], patched["apiVersion"]]
    if context.served.custom is None or not all(isinstance(text, str) for text in found):
        return _undecodable(patched, f"the kind of an object cannot be changed: it is a {kind} of {api_version}")
    wanted = {"kind": kind, "apiVersion": api_version}
    errors = [invalid(key, patched[key], f"must be {text}") for key, text in wanted.items() if patched[key] != text]
    return Invalid.of(GroupKind(found[1].rpartition("/")[0], found[0]), context.info.name, errors)


def _decode(body: bytes, media: str) -> tuple[Any, list[str]]:
    try:
        document, duplicates = json.decode_with_duplicates(body)
    except DecodeError as error:
        raise BadRequest(f"error decoding patch: {error}") from None
    prefix = "json patch " if media == JSON_PATCH else ""
    return document, [f"{prefix}{problem}" for problem in duplicates]


def _applier(media: str, document: Any, schema: ObjectSchema) -> Callable[[Object], Object]:
    if media == JSON_PATCH:
        _operations(document)
        return lambda obj: _result(_json_patch(obj, _operations(copy_of(document))))
    if not isinstance(document, dict):
        if document is None:
            return lambda obj: obj
        raise BadRequest(f"error decoding patch: {unmarshal_error(json_type(document), ANY_MAP)}")
    if media == MERGE_PATCH:
        return lambda obj: _result(patches.merge(obj, copy_of(document)))
    return lambda obj: _result(_strategic(obj, document, schema))


def _operations(document: Any) -> list[jsonpatch.Operation]:
    try:
        return jsonpatch.decode_operations(document)
    except patches.PatchDecodeError as error:
        raise BadRequest(str(error)) from None


def _json_patch(obj: Object, operations: list[jsonpatch.Operation]) -> Any:
    try:
        return jsonpatch.apply(obj, operations)
    except patches.PatchApplyError:
        raise Invalid.generic() from None
    except patches.PatchTooDeep as error:
        raise BadRequest(f"error applying patch: {error}") from None


def _strategic(obj: Object, document: Object, schema: ObjectSchema) -> Any:
    try:
        return strategicmerge.apply(obj, copy_of(document), schema.merge)
    except patches.PatchFormatError as error:
        raise BadRequest(str(error)) from None
    except patches.PatchContentError:
        raise Invalid.generic() from None
    except patches.PatchInternalError as error:
        raise PlainError(str(error)) from None


def _result(patched: Any) -> Object:
    if not isinstance(patched, dict):
        raise _undecodable(patched, "the patched document is not an object")
    return patched


def _undecodable(patched: Any, why: str) -> ApiError:
    """The result is not an object of its kind. kube-apiserver names neither kind nor object here."""
    return Invalid.of(GroupKind("", ""), "", [invalid("patch", json.encode(patched).decode(), why)])


def _check_type_meta(patched: Object, document: Object) -> None:
    for field in ("apiVersion", "kind"):
        value = patched.get(field)
        if value is not None and not isinstance(value, str):
            raise _unconvertible(document, restore_error(value, "string", "string"))


def _unconvertible(document: Object, why: str) -> ApiError:
    """The result of a strategic merge is not an object of its kind; kube-apiserver shows the patch as Go prints it."""
    return Invalid.of(GroupKind("", ""), "", [invalid("patch", format_value(document), why)])
