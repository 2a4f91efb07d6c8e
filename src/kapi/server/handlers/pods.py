"""Sub-resources of pods that are created and not stored: binding to a node, and eviction under disruption budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import BadRequest, Conflict
from kapi.api.meta import GroupVersionKind
from kapi.registry import write as writepath
from kapi.registry.encoding import HubObject
from kapi.registry.kinds.core.pod.subresources import (
    EvictionDecision,
    bind,
    budget_busy,
    check_binding,
    evaluate_eviction,
    mark_evicted,
)
from kapi.registry.request import CREATE, DELETE, NO_ADMISSION, UPDATE, WriteOptions
from kapi.schema.builtin.typed import kind_schema
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.delete import options_of
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import plain_only, status_response
from kapi.server.handlers.write import match_namespace, new_write

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.store import Store
    from kapi.server.context import Context
    from kapi.server.transport.message import Response

BINDING = GroupVersionKind("", "v1", "Binding")
EVICTION = GroupVersionKind("policy", "v1", "Eviction")
BUDGETS = "poddisruptionbudgets.policy"
ATTEMPTS = 5

_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def create_binding(context: Context) -> Response:
    """POST of pods/binding, or of a Binding to the namespace."""
    plain_only(context)
    options = write_options(context.query, "CreateOptions")
    expected = Expectation(BINDING, kind_schema(*BINDING))
    binding = await read_object(context, expected, validation=options.field_validation)
    match_namespace(context, binding["metadata"])
    name = context.info.name or binding["metadata"].get("name", "")
    check_binding(name, binding)
    store = context.services.catalog.store("pods")
    write = new_write(context, CREATE, options, name=name, kind=BINDING, store=store)
    await writepath.admit(write, binding)

    def bound(item: Item, pod: HubObject) -> HubObject:
        _check_preconditions(store, pod, binding)
        return HubObject(bind(pod, binding, write.now))

    await writepath.guaranteed_update(write, bound)
    return status_response(context, dict(_CREATED), code=201)


def _check_preconditions(store: Store, pod: Object, binding: Object) -> None:
    """A uid or resourceVersion in a Binding is about the pod."""
    wanted, actual = binding["metadata"], pod["metadata"]
    for key, what in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(key) and wanted[key] != actual[key]:
            why = f"Precondition failed: {what} in precondition: {wanted[key]}, {what} in object meta: {actual[key]}"
            raise Conflict.of(store.resource, actual["name"], why)


async def create_eviction(context: Context) -> Response:
    """POST of pods/eviction: deletes the pod if its disruption budget allows."""
    plain_only(context)
    options = write_options(context.query, "CreateOptions")
    expected = Expectation(EVICTION, kind_schema(*EVICTION), older=("policy/v1beta1",))
    eviction = await read_object(context, expected, validation=options.field_validation)
    if eviction["metadata"].get("name", context.info.name) != context.info.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    match_namespace(context, eviction["metadata"])
    await writepath.admit(new_write(context, CREATE, options, kind=EVICTION), eviction)
    deletion = options_of(eviction.get("deleteOptions") or {})
    deletion = replace(deletion, dry_run=options.dry_run or deletion.dry_run)
    for _ in range(ATTEMPTS):
        allowed = await _spend_budget(context, deletion)
        if await _delete_pod(context, deletion, allowed):
            return status_response(context, dict(_CREATED), code=201)
    raise budget_busy(allowed.decision.budget_name)


class _Changed(Exception):
    """An object is not what was decided about any more."""


class _Allowed(NamedTuple):
    """An eviction that is allowed: the pod as it was when that was decided, and the decision."""

    item: Item
    decision: EvictionDecision


async def _spend_budget(context: Context, deletion: DeleteOptions) -> _Allowed:
    """Take one allowed disruption from the pod's budget, if it has one; raises when there is none left."""
    catalog, info = context.services.catalog, context.info
    pods = catalog.store("pods")
    for _ in range(ATTEMPTS):
        item = pods.get(info.namespace, info.name)
        matching = list(catalog.list(BUDGETS, info.namespace))
        decision = evaluate_eviction(pods.decode(item), matching, context.services.clock.now())
        if decision.refusal is not None:
            raise decision.refusal
        if decision.budget is None or deletion.dry_run or await _write_budget(context, decision.budget):
            return _Allowed(item, decision)
    raise budget_busy(decision.budget_name)


async def _write_budget(context: Context, budget: Object) -> bool:
    """Commit a budget from which a disruption was taken; False when it has changed meanwhile."""
    metadata = budget["metadata"]
    store = context.services.catalog.store(BUDGETS)
    write = new_write(context, UPDATE, WriteOptions(), name=metadata["name"], store=store)

    def spent(item: Item, current: HubObject) -> HubObject:
        if str(item.revision) != metadata["resourceVersion"]:
            raise _Changed
        return HubObject(budget)

    try:
        await writepath.guaranteed_update(write, spent)
    except _Changed:
        return False
    return True


async def _delete_pod(context: Context, deletion: DeleteOptions, allowed: _Allowed) -> bool:
    """Delete the pod whose eviction is allowed; False when it has changed since in a way that needs a new decision."""
    pinned = allowed.decision.pin_resource_version
    if not deletion.dry_run:
        try:
            marked = await _mark(context, deletion, allowed.item if pinned else None)
        except _Changed:
            if allowed.decision.budget_name:
                raise budget_busy(allowed.decision.budget_name) from None
            return False
        if pinned or deletion.resource_version is not None:
            # It was the right one when it was marked, and the mark is ours.
            deletion = replace(deletion, resource_version=str(marked.revision))
    # The eviction has been through admission; the deletion it stands for is not admitted again, as in kube-apiserver.
    await writepath.delete(new_write(context, DELETE, deletion, admission=NO_ADMISSION))
    return True


async def _mark(context: Context, deletion: DeleteOptions, pinned: Item | None) -> Item:
    """Add the condition that tells the pod's controller why it is deleted; `_Changed` when a pinned pod has changed."""
    write = new_write(context, UPDATE, WriteOptions())

    def evicted(item: Item, pod: HubObject) -> HubObject:
        if pinned is not None and item.revision != pinned.revision:
            raise _Changed
        write.store.check_deletion(item, pod, deletion)
        return HubObject(mark_evicted(pod, write.now))

    return (await writepath.guaranteed_update(write, evicted)).item
