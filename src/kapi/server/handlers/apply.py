"""Server-side apply: a PATCH that carries the fields its field manager wants, merged with those of other managers.

The configuration is merged into the object by schema and field owners (`kapi.api.ownership.managedfields`); the result
is written as an update, or as a creation when there is no object yet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import BadRequest, Conflict
from kapi.api.go.types import ANY_MAP, json_type, unmarshal_error
from kapi.api.limits import YAML_OFF_LOOP_BYTES
from kapi.base.offloop import off_loop
from kapi.codec import yaml
from kapi.codec.errors import DecodeError
from kapi.registry import write as writepath
from kapi.registry.encoding import copy_of
from kapi.registry.fieldmanagers import with_conversions
from kapi.registry.request import UPDATE
from kapi.registry.write import Source
from kapi.schema.builtin.typed import TypeMismatch
from kapi.schema.structural.metadata import coerce_object_meta
from kapi.server.handlers.decode import check_size, shape_up, shape_up_metadata
from kapi.server.handlers.options import apply_options
from kapi.server.handlers.respond import object_response, view_for
from kapi.server.handlers.write import authorize_create, check_name, initialized, match_namespace, new_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.api.ownership.managedfields import FieldManager
    from kapi.registry.request import WriteOptions
    from kapi.registry.updatescope import UpdateScope
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


class Configuration(NamedTuple):
    """The decoded body of an apply, and its duplicate keys."""

    value: Object
    duplicates: list[str]


async def apply_with(context: Context, scope: UpdateScope) -> Response:
    """Apply a configuration, as far as the scope of an endpoint allows."""
    store, info = context.served.stored, context.info
    view = view_for(context, listing=False)
    options = apply_options(context.query)
    creates = scope is store.object_scope
    if not creates:
        store.get(info.namespace, info.name)  # a missing object is reported before errors in the body
    source = _Applied(context, await read_config(context), options)
    written = await writepath.update(
        new_write(context, UPDATE, options),
        source,
        scope,
        may_create=partial(authorize_create, context) if creates else None,
    )
    item = await initialized(context, written)
    return await object_response(context, 201 if written.created else 200, view.one(item))


async def read_config(context: Context) -> Configuration:
    """The configuration of a request, which is YAML or JSON."""
    request = context.request
    check_size(request)
    try:
        if len(request.body) > YAML_OFF_LOOP_BYTES:
            value, duplicates = await context.services.large.decode(yaml.decode_with_duplicates, request.body)
        else:
            value, duplicates = yaml.decode_with_duplicates(request.body)
    except DecodeError as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        problem = unmarshal_error(json_type(value), ANY_MAP)
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
    if context.audit is not None:
        context.audit.request_patch(value)
    return Configuration(value, duplicates)


class AppliedConfiguration(Source):
    """The wanted state of an apply of any kind: the configuration merged into the current state."""

    applies = True

    def __init__(self, context: Context, config: Configuration, options: WriteOptions, manager: FieldManager) -> None:
        self._context = context
        self._config = config
        self._options = options
        self._manager = manager
        self._now = context.services.clock.now()

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The merged object, with the name and the namespace of the URL."""
        return self._merged(None if live is None else live())

    def _merged(self, live: Object | None) -> Object:
        """Merge. Conflicts are reported before duplicate keys, and these before a wrong name, as in kube-apiserver."""
        context, config, options = self._context, self._config, self._options
        obj = self._manager.apply(
            live,
            copy_of(config.value),
            manager=options.field_manager,
            force=options.force,
            now=self._now,
        )
        if config.duplicates and options.field_validation == "Strict":
            problems = yaml.strict_error(config.duplicates)
            raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {problems}")
        if options.field_validation == "Warn":
            context.warnings += [problem for problem in config.duplicates if problem not in context.warnings]
        metadata = obj["metadata"]
        if metadata.get("uid") and live is None:
            why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise Conflict.of(context.served.group_resource, context.info.name, why)
        match_namespace(context, metadata)
        check_name(context, metadata)
        return obj


class _Applied(AppliedConfiguration):
    """The wanted state of an apply to the resource itself, in the shape of its schema."""

    is_patch = True

    def __init__(self, context: Context, config: Configuration, options: WriteOptions) -> None:
        manager = context.services.catalog.field_managers.of(context.served, context.info.subresource)
        super().__init__(context, config, options, manager)

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """The merged object; where its managers use other versions that a webhook converts to, that is waited for."""
        if live is not None and self.off_loop:
            current: Object | None = await off_loop(live)
        else:
            current = None if live is None else live()
        return await with_conversions(self._context.served, lambda: self._shaped(current), is_large=self.off_loop)

    def _shaped(self, live: Object | None) -> Object:
        resource = self._context.served
        whole = self._merged(live)
        entries = whole["metadata"].pop("managedFields", None)
        # The configuration may have written the version of its kind in another way.
        whole["apiVersion"], whole["kind"] = resource.api_version, resource.kind
        # The merge may have left nulls, and shares its parts with the live object; decoding it makes a copy.
        obj: Object = copy_of(whole)
        try:
            if resource.custom is None:
                shape_up(obj, resource.schema)
            else:
                # A custom object is validated as the merge leaves it, with its nulls, but for its metadata.
                shape_up_metadata(obj, coerce_object_meta)
        except TypeMismatch as error:
            raise BadRequest(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
            ) from None
        if entries:
            obj["metadata"]["managedFields"] = entries
        if live is not None and "initializers" in live["metadata"]:
            obj["metadata"]["initializers"] = live["metadata"]["initializers"]
        return obj
