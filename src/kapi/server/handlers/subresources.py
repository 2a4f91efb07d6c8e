"""Sub-resources that are more than a part of their object: scale, finalize, approval, ephemeral containers, resize."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kapi.api.errors import NotImplemented501
from kapi.api.meta import GroupVersionKind
from kapi.api.ownership.apply import excluding
from kapi.api.ownership.fieldset import fields
from kapi.api.ownership.managedfields import FieldManager, parent_entries, scale_entries
from kapi.api.patch.mergepatch import APPLY_PATCH
from kapi.cache.watchcache import Item, Selection
from kapi.registry.custom.store import CustomStore
from kapi.registry.custom.strategy import CustomStrategy
from kapi.registry.encoding import copy_of, encode
from kapi.registry.kinds.certificates import ApprovalStrategy
from kapi.registry.kinds.core.namespaces import NamespaceFinalizeStrategy
from kapi.registry.kinds.core.pod.subresources import EphemeralContainersStrategy, ResizeStrategy
from kapi.registry.resource import Resource
from kapi.registry.scale import BuiltInScales
from kapi.registry.store import Rules
from kapi.registry.tables.custom import SCALE_TABLE
from kapi.schema.builtin.typed import kind_schema
from kapi.server.handlers.apply import merged, read_config
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import apply_options, write_options
from kapi.server.handlers.patch import patch_media, patch_with, read_patch
from kapi.server.handlers.respond import json_response, object_response, plain_only, view_for
from kapi.server.handlers.write import check_name, operation_of, put, settle_namespace, write_context
from kapi.server.ownership import manager_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.api.ownership.managedfields import ReplicasPaths
    from kapi.registry.scale import Scales
    from kapi.registry.tables import Table
    from kapi.server.context import Context
    from kapi.server.handlers.options import WriteOptions
    from kapi.server.transport.message import Response

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")

_SCALES = Resource(*SCALE[:2], "scales", SCALE.kind, "scale", namespaced=True, verbs=())
"""What a Scale is shown as; nothing is served under this name."""


class _CustomScales(Resource):
    """The same for custom kinds, whose Scales have columns of their own."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        """How they are shown in rows and columns."""
        return SCALE_TABLE


_CUSTOM_SCALES = _CustomScales(*SCALE[:2], "scales", SCALE.kind, "scale", namespaced=True, verbs=())

_BUILT_IN = BuiltInScales()

_FINALIZE = Rules(NamespaceFinalizeStrategy())
_APPROVAL = Rules(ApprovalStrategy())
_EPHEMERAL = Rules(EphemeralContainersStrategy())
_RESIZE = Rules(ResizeStrategy())


# -- scale ----------------------------------------------------------------------------------------------------------


async def get_scale(context: Context) -> Response:
    """GET of /scale."""
    view = view_for(context, listing=False, shown=_SCALES if context.served.custom is None else _CUSTOM_SCALES)
    store, info = context.served.stored, context.info
    item = store.get(info.namespace, info.name)
    body = encode(_scales(context.served).read(await store.load(item)))[len(_SCALES.head) :]
    scale = Item("", item.namespace, item.name, item.revision, body, Selection(None, None))
    return await object_response(context, 200, view.one(scale))


async def update_scale(context: Context) -> Response:
    """PUT of /scale."""
    plain_only(context)
    options = write_options(context.query, "UpdateOptions")
    expected = Expectation(SCALE, kind_schema(*SCALE))
    scale = await read_object(context, expected, validation=options.field_validation)
    check_name(context, scale["metadata"])
    settle_namespace(context, scale["metadata"])

    return await _write_scale(context, options, lambda _: copy_of(scale))


async def patch_scale(context: Context) -> Response:
    """PATCH of /scale."""
    plain_only(context)
    if patch_media(context) == APPLY_PATCH:
        return await _apply_scale(context)
    apply = read_patch(context, kind_schema(*SCALE))
    options = write_options(context.query, "PatchOptions")

    def wanted(current: Object) -> Object:
        scale = apply(current, options.field_validation)
        check_name(context, scale["metadata"])
        settle_namespace(context, scale["metadata"])
        # A uid is a precondition of who sends the whole; a patch of one changes what nobody stores.
        scale["metadata"].pop("uid", None)
        return scale

    return await _write_scale(context, options, wanted)


async def _apply_scale(context: Context) -> Response:
    """Server-side apply of /scale: who applies the Scale's replicas owns the object's."""
    asked = apply_options(context.query)
    context.served.stored.get(context.info.namespace, context.info.name)
    config = await read_config(context)

    def wanted(current: Object) -> Object:
        return merged(context, _scale_owners(), current, config, asked)

    return await _write_scale(context, asked.write, wanted, applied=True)


async def _write_scale(
    context: Context, options: WriteOptions, wanted: Callable[[Object], Object], *, applied: bool = False
) -> Response:
    """Change the object behind a Scale; `wanted` is given the Scale as it is. Admission sees Scales only."""
    store, info = context.served.stored, context.info
    admission = context.services.admission
    operation = operation_of(context, "UPDATE", info.name, options)
    scales, paths = _scales(context.served), _replicas_paths(context)

    async def build(old: Object, fresh: Callable[[], Object]) -> Object:
        current = _owned(scales.current(old), old, paths)
        scale = wanted(_owned(scales.current(old), old, paths))
        if not applied:
            name, now = manager_name(context, options), context.services.clock.now()
            _scale_owners().update(current, scale, manager=name, now=now)
        entries = scale["metadata"].pop("managedFields", None)
        await admission.mutate(operation, scale, scales.shown(old))
        obj = scales.write(fresh(), scale)
        owned = parent_entries(old["metadata"].get("managedFields"), entries, context.served.api_version, paths)
        if owned:
            obj["metadata"]["managedFields"] = owned
        return obj

    async def admit(obj: Object | None, old: Object | None) -> None:
        await admission.validate(operation, obj and scales.shown(obj), old and scales.shown(old))
        if obj is not None and isinstance(store, CustomStore):
            # The replicas may have got a place that was not there before, and then all that belongs there by default.
            store.fill_in(obj)

    writing = write_context(context, options)
    written = await store.update(writing, info.namespace, info.name, build, admit, rules=store.rules)
    return json_response(context, 200, scales.shown(await store.load(written.item)))


def _scales(resource: Resource) -> Scales:
    """How Scales of a resource are read and written."""
    strategy = resource.stored.strategy
    if isinstance(strategy, CustomStrategy):
        assert strategy.scale is not None
        return strategy.scale
    return _BUILT_IN


def _replicas_paths(context: Context) -> ReplicasPaths:
    """Where the versions of a kind keep the wanted number of replicas."""
    resource = context.served
    if resource.custom is None:
        return {resource.api_version: _BUILT_IN.replicas}
    versions = context.services.catalog.groups[resource.group].values()
    found = (resources[resource.resource] for resources in versions if resource.resource in resources)
    return {one.api_version: _scales(one).replicas if "scale" in one.subresources else None for one in found}


@cache
def _scale_owners() -> FieldManager:
    """The field manager of Scales."""
    return FieldManager(kind_schema(*SCALE).shape, SCALE, subresource="scale", reset=excluding(fields("status")))


def _owned(scale: Object, obj: Object, paths: ReplicasPaths) -> Object:
    """The Scale of an object, with the owners of its replicas."""
    entries = scale_entries(obj["metadata"].get("managedFields"), paths)
    if entries:
        scale["metadata"]["managedFields"] = entries
    return scale


# -- endpoints that change one part of the object -------------------------------------------------------------------


async def finalize(context: Context) -> Response:
    """PUT of namespaces/finalize."""
    return await put(context, _FINALIZE)


async def update_approval(context: Context) -> Response:
    """PUT of certificatesigningrequests/approval."""
    return await put(context, _APPROVAL)


async def patch_approval(context: Context) -> Response:
    """PATCH of certificatesigningrequests/approval."""
    return await patch_with(context, _APPROVAL)


async def update_ephemeral(context: Context) -> Response:
    """PUT of pods/ephemeralcontainers."""
    return await put(context, _EPHEMERAL)


async def patch_ephemeral(context: Context) -> Response:
    """PATCH of pods/ephemeralcontainers."""
    return await patch_with(context, _EPHEMERAL)


async def update_resize(context: Context) -> Response:
    """PUT of pods/resize."""
    return await put(context, _RESIZE)


async def patch_resize(context: Context) -> Response:
    """PATCH of pods/resize."""
    return await patch_with(context, _RESIZE)


# -- what needs a kubelet -------------------------------------------------------------------------------------------


async def no_kubelet(context: Context) -> Response:
    """Exec, attach, log, port-forward and proxies: there is no node behind this control plane to ask."""
    info, store = context.info, context.served.stored
    store.get(info.namespace, info.name)
    raise NotImplemented501(
        f"{info.resource}/{info.subresource} is not supported: this control plane runs no nodes, "
        f'so nothing is running behind {context.served.singular} "{info.name}"',
        details={"name": info.name, "kind": info.resource},
    )


async def no_tokens(context: Context) -> Response:
    """Service account tokens: nothing here signs them yet."""
    context.served.stored.get(context.info.namespace, context.info.name)
    raise NotImplemented501(
        "serviceaccounts/token is not supported: this server does not issue service account tokens",
        details={"name": context.info.name, "kind": context.info.resource},
    )
