"""Sub-resources with behaviour of their own: scale, finalize, approval, ephemeral containers, resize, and CONNECT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

from kapi.api.errors import Forbidden, InternalError, NotImplemented501
from kapi.api.meta import GroupVersionKind
from kapi.api.patch.mergepatch import APPLY_PATCH
from kapi.cache.watchcache import Item, Selection
from kapi.registry import write as writepath
from kapi.registry.encoding import encode
from kapi.registry.kinds.certificates import ApprovalStrategy
from kapi.registry.kinds.core.namespaces import NamespaceFinalizeStrategy
from kapi.registry.kinds.core.pod.subresources import EphemeralContainersStrategy, ResizeStrategy
from kapi.registry.request import CONNECT, UPDATE, WriteOptions
from kapi.registry.resource import Resource
from kapi.registry.scale import SCALE, BuiltInScales, ScaleScope, scale_manager
from kapi.registry.store import ReadyItem
from kapi.registry.tables.custom import SCALE_TABLE
from kapi.registry.updatescope import UpdateScope
from kapi.registry.write import Replacement, Source
from kapi.schema.builtin.typed import kind_schema
from kapi.server.authz.attributes import attributes_of
from kapi.server.handlers.apply import AppliedConfiguration, read_config
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import apply_options, write_options
from kapi.server.handlers.patch import patch_media, patch_with, read_patch
from kapi.server.handlers.respond import json_response, object_response, plain_only, view_for
from kapi.server.handlers.write import check_name, match_namespace, new_write, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.api.ownership.managedfields import ReplicasPaths
    from kapi.registry.scale import Scales
    from kapi.registry.tables import Table
    from kapi.server.context import Context
    from kapi.server.transport.message import Response

_SCALES = Resource(*SCALE[:2], "scales", SCALE.kind, "scale", namespaced=True, verbs=())
"""How a Scale is shown; no resource is served under this name."""


class _CustomScales(Resource):
    """The same for custom kinds, whose Scales have columns of their own."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        """Their columns."""
        return SCALE_TABLE


_CUSTOM_SCALES = _CustomScales(*SCALE[:2], "scales", SCALE.kind, "scale", namespaced=True, verbs=())

_BUILT_IN = BuiltInScales()

_FINALIZE_SCOPE = UpdateScope(NamespaceFinalizeStrategy())
_APPROVAL_SCOPE = UpdateScope(ApprovalStrategy())
_EPHEMERAL_SCOPE = UpdateScope(EphemeralContainersStrategy())
_RESIZE_SCOPE = UpdateScope(ResizeStrategy())


# -- scale ----------------------------------------------------------------------------------------------------------


async def get_scale(context: Context) -> Response:
    """GET of /scale."""
    view = view_for(context, listing=False, shown=_SCALES if context.served.custom is None else _CUSTOM_SCALES)
    store, info = context.served.stored, context.info
    item = await store.fetch(info.namespace, info.name)
    body = encode(_scales(context.served).read(store.decode(item)))[len(_SCALES.head) :]
    scale = Item("", item.namespace, item.name, item.revision, body, Selection(None, None))
    return await object_response(context, 200, view.one(ReadyItem(scale)))


async def update_scale(context: Context) -> Response:
    """PUT of /scale."""
    plain_only(context)
    options = write_options(context.query, "UpdateOptions")
    expected = Expectation(SCALE, kind_schema(*SCALE))
    scale = await read_object(context, expected, validation=options.field_validation)
    check_name(context, scale["metadata"])
    match_namespace(context, scale["metadata"])
    return await _write_scale(context, options, Replacement(scale))


async def patch_scale(context: Context) -> Response:
    """PATCH of /scale."""
    plain_only(context)
    if patch_media(context) == APPLY_PATCH:
        return await _apply_scale(context)
    apply = await read_patch(context, kind_schema(*SCALE))
    options = write_options(context.query, "PatchOptions")
    return await _write_scale(context, options, _PatchedScale(context, apply, options.field_validation))


class _PatchedScale(Source):
    """The wanted Scale of a patch."""

    def __init__(self, context: Context, apply: Callable[[Object, str], Object], validation: str) -> None:
        self._context = context
        self._apply = apply
        self._validation = validation

    async def __call__(self, live: Callable[[], Object] | None) -> Object:
        """Apply the patch to the current Scale."""
        assert live is not None
        scale = self._apply(live(), self._validation)
        check_name(self._context, scale["metadata"])
        match_namespace(self._context, scale["metadata"])
        # In the body of a PUT a uid is a precondition; in a patch it is a change, and a Scale's is not stored.
        scale["metadata"].pop("uid", None)
        return scale


async def _apply_scale(context: Context) -> Response:
    """Server-side apply of /scale: a manager that applies the Scale's replicas owns the object's."""
    options = apply_options(context.query)
    context.served.stored.get(context.info.namespace, context.info.name)
    config = await read_config(context)
    return await _write_scale(context, options, AppliedConfiguration(context, config, options, scale_manager()))


async def _write_scale(context: Context, options: WriteOptions, source: Source) -> Response:
    """Change the object behind a Scale."""
    store = context.served.stored
    scales = _scales(context.served)
    scope = ScaleScope(store.strategy, scales, _replicas_paths(context))
    written = await writepath.update(new_write(context, UPDATE, options, kind=SCALE), source, scope)
    return json_response(context, 200, scales.shown(store.decode(written.item)))


def _scales(resource: Resource) -> Scales:
    """The reader and writer of a resource's Scales."""
    return resource.stored.strategy.scale or _BUILT_IN


def _replicas_paths(context: Context) -> ReplicasPaths:
    """Where the versions of a kind keep the wanted number of replicas."""
    resource = context.served
    if resource.custom is None:
        return {resource.api_version: _BUILT_IN.replicas}
    versions = context.services.catalog.groups[resource.group].values()
    found = (resources[resource.resource] for resources in versions if resource.resource in resources)
    return {one.api_version: _scales(one).replicas if "scale" in one.subresources else None for one in found}


# -- endpoints that change one part of the object -------------------------------------------------------------------


async def finalize(context: Context) -> Response:
    """PUT of namespaces/finalize."""
    return await put(context, _FINALIZE_SCOPE)


async def update_approval(context: Context) -> Response:
    """PUT of certificatesigningrequests/approval."""
    return await put(context, _APPROVAL_SCOPE)


async def patch_approval(context: Context) -> Response:
    """PATCH of certificatesigningrequests/approval."""
    return await patch_with(context, _APPROVAL_SCOPE)


async def update_ephemeral(context: Context) -> Response:
    """PUT of pods/ephemeralcontainers."""
    return await put(context, _EPHEMERAL_SCOPE)


async def patch_ephemeral(context: Context) -> Response:
    """PATCH of pods/ephemeralcontainers."""
    return await patch_with(context, _EPHEMERAL_SCOPE)


async def update_resize(context: Context) -> Response:
    """PUT of pods/resize."""
    return await put(context, _RESIZE_SCOPE)


async def patch_resize(context: Context) -> Response:
    """PATCH of pods/resize."""
    return await patch_with(context, _RESIZE_SCOPE)


# -- what needs a kubelet -------------------------------------------------------------------------------------------


class _ConnectOptions(NamedTuple):
    """The kind that CONNECT admission of a sub-resource sees, and the query parameters that are its fields."""

    kind: str
    flags: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def read(self, query: str, rest: tuple[str, ...]) -> Object:
        """The options object of a request."""
        values = parse_qs(query, keep_blank_values=True)
        obj: Object = {"kind": self.kind, "apiVersion": "v1"}
        obj |= {name: True for name in self.flags if name in values and values[name][0].lower() not in ("false", "0")}
        obj |= {name: values[name][0] for name in self.texts if values.get(name, [""])[0]}
        obj |= {name: values.get(name) for name in self.lists}
        numbers: dict[str, Any] = {name: values[name] for name in self.numbers if name in values}
        obj |= {name: [int(one) for one in found if one.isdecimal()] for name, found in numbers.items()}
        if self.kind.endswith("ProxyOptions") and rest:
            obj["path"] = f"/{'/'.join(rest)}"
        return obj


_STREAMS = ("stdin", "stdout", "stderr", "tty")
_CONNECT: Final = {
    "pods/exec": _ConnectOptions("PodExecOptions", _STREAMS, ("container",), ("command",)),
    "pods/attach": _ConnectOptions("PodAttachOptions", _STREAMS, ("container",)),
    "pods/portforward": _ConnectOptions("PodPortForwardOptions", numbers=("ports",)),
    "pods/proxy": _ConnectOptions("PodProxyOptions"),
    "services/proxy": _ConnectOptions("ServiceProxyOptions"),
    "nodes/proxy": _ConnectOptions("NodeProxyOptions"),
}


async def connect(context: Context) -> Response:
    """CONNECT to exec, attach, port-forward or a proxy: admission decides first, as in kube-apiserver."""
    info = context.info
    expected = _CONNECT[f"{info.resource}/{info.subresource}"]
    write = new_write(context, CONNECT, WriteOptions(), kind=GroupVersionKind("", "v1", expected.kind))
    await writepath.admit(write, expected.read(context.request.query, info.rest))
    if info.resource == "pods" and info.subresource != "proxy":
        await _require_create(context)
    return await no_kubelet(context)


async def _require_create(context: Context) -> None:
    """Refuse a user that may not create: a WebSocket is opened with GET, and can do the same as a POST."""
    if context.info.verb == "create":
        return
    attributes = attributes_of(context.user, context.info)._replace(verb="create")
    decision = await context.services.authorizer.authorize(attributes)
    if decision.error and not decision.allowed:
        raise InternalError.of(decision.error)
    if not decision.allowed:
        raise Forbidden.of(context.served.group_resource, context.info.name, decision.reason)


async def no_kubelet(context: Context) -> Response:
    """Exec, attach, log, port-forward and proxies are answered by nodes, and this control plane has none."""
    info, store = context.info, context.served.stored
    store.get(info.namespace, info.name)
    raise NotImplemented501(
        f"{info.resource}/{info.subresource} is not supported: this control plane runs no nodes, "
        f'so nothing is running behind {context.served.singular} "{info.name}"',
        details={"name": info.name, "kind": info.resource},
    )
