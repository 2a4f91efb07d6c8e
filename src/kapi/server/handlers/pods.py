"""Pods: binding to a node, and eviction under disruption budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import BadRequest, Conflict
from kapi.api.meta import GroupVersionKind
from kapi.registry.deletion import check_preconditions
from kapi.registry.kinds.core.pod.subresources import (
    EvictionDecision,
    bind,
    budget_busy,
    check_binding,
    evaluate_eviction,
    mark_evicted,
)
from kapi.schema.builtin.typed import kind_schema
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.delete import options_of
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import plain_only, status_response
from kapi.server.handlers.write import operation_of, settle_namespace, write_context
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.store import Store
    from kapi.server.context import Context
    from kapi.server.handlers.options import WriteOptions
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
    settle_namespace(context, binding["metadata"])
    name = context.info.name or binding["metadata"].get("name", "")
    check_binding(name, binding)
    await _admit(context, name, binding, options)
    store = context.services.catalog.store("pods")
    now = context.services.clock.now()
    while True:
        item = store.get(context.info.namespace, name)
        pod = store.decode(item)
        _check_preconditions(store, pod, binding)
        pod = bind(pod, binding, now)
        if options.dry_run:
            break
        try:
            await store.write(item.key, pod, item.revision)
            break
        except RevisionMismatch:
            continue
    return status_response(context, dict(_CREATED), code=201)


async def _admit(context: Context, name: str, obj: Object, options: WriteOptions) -> None:
    """All of admission, before anything is written: a Binding and an Eviction are created, though not stored."""
    operation = operation_of(context, "CREATE", name, options)
    await context.services.admission.mutate(operation, obj, None)
    await context.services.admission.validate(operation, obj, None)


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
    await _admit(context, context.info.name, eviction, options)
    delete_options, dry_run = options_of(eviction.get("deleteOptions") or {})
    asked = options._replace(dry_run=options.dry_run or dry_run)
    for _ in range(ATTEMPTS):
        judged = await _spend_budget(context, asked)
        if await _delete_pod(context, asked, delete_options, judged):
            return status_response(context, dict(_CREATED), code=201)
    raise budget_busy(judged.decision.budget_name)


class _Judged(NamedTuple):
    """An eviction that may go on: the pod as it was judged, and whether it must still be that."""

    item: Item
    decision: EvictionDecision


async def _spend_budget(context: Context, options: WriteOptions) -> _Judged:
    """Take one allowed disruption from the pod's budget, if it has one; raises when there is none left."""
    catalog, info = context.services.catalog, context.info
    pods, budgets = catalog.store("pods"), catalog.store(BUDGETS)
    for _ in range(ATTEMPTS):
        item = pods.get(info.namespace, info.name)
        matching = list(catalog.list(BUDGETS, info.namespace))
        decision = evaluate_eviction(pods.decode(item), matching, context.services.clock.now())
        if decision.refusal is not None:
            raise decision.refusal
        if decision.budget is None or options.dry_run:
            return _Judged(item, decision)
        metadata = decision.budget["metadata"]
        key = budgets.key(info.namespace, metadata["name"])
        try:
            await budgets.write(key, decision.budget, int(metadata["resourceVersion"]))
        except RevisionMismatch:
            continue
        return _Judged(item, decision)
    raise budget_busy(decision.budget_name)


async def _delete_pod(context: Context, options: WriteOptions, delete_options: DeleteOptions, judged: _Judged) -> bool:
    """Delete the pod that was judged; False when it has changed since in a way that needs a new judgement."""
    store, info = context.services.catalog.store("pods"), context.info
    pin = judged.decision.pin_resource_version
    item = judged.item if pin else store.get(info.namespace, info.name)
    if not options.dry_run:
        marked = await _mark(context, item, delete_options, pin=pin)
        if marked is None:
            if judged.decision.budget_name:
                raise budget_busy(judged.decision.budget_name)
            return False
        if pin or delete_options.resource_version is not None:
            # It was the right one when it was marked, and the mark is ours.
            delete_options = replace(delete_options, resource_version=str(marked.revision))
    await store.delete(write_context(context, options), info.namespace, info.name, delete_options, _admitted)
    return True


async def _admitted(obj: Object | None, old: Object | None) -> None:
    """The eviction has been through admission; the deletion it stands for is not asked about again."""


async def _mark(context: Context, item: Item, options: DeleteOptions, *, pin: bool) -> Item | None:
    """Write down why the pod goes, so that its controller knows; None when a pinned pod has changed."""
    store = context.services.catalog.store("pods")
    while True:
        pod = store.decode(item)
        check_preconditions(store, item, pod, options)
        evicted = mark_evicted(pod, context.services.clock.now())
        try:
            return await store.write(item.key, evicted, item.revision)
        except RevisionMismatch:
            if pin:
                return None
            item = store.get(item.namespace, item.name)
