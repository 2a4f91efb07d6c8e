"""The plug-ins of the admission chain that call webhooks.

Mutating webhooks are called one after the other, in the order of their configurations' names, since each sees what the
ones before it have made of the object. A change has the whole mutating chain run once more, and then the webhooks are
called again that ask for it (`reinvocationPolicy: IfNeeded`). Validating webhooks are called at the same time; all of
them are waited for, and of several refusals the first webhook's is returned.

A webhook is called if its rules cover the request, its selectors select it and its match conditions hold. One that
fails refuses the request, or is ignored, by its failure policy.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kapi.api import names
from kapi.api.errors import ApiError, Forbidden, InternalError
from kapi.codec import json
from kapi.registry.encoding import copy_of
from kapi.server.admission.chain import reinvocation_of
from kapi.server.admission.matching import RequestNamespace
from kapi.server.admission.request import admitted_name
from kapi.server.admission.versions import in_store
from kapi.server.admission.webhooks.configurations import MUTATING, VALIDATING, Configurations
from kapi.server.admission.webhooks.errors import CallFailed, Denied
from kapi.server.admission.webhooks.metrics import CALL_FAILED, DENIED, SERVER_FAILED, metrics_of
from kapi.server.admission.webhooks.objects import AdmittedObjects
from kapi.server.admission.webhooks.patch import SHORT_PATCH, UndecodablePatch, apply_patch, decode_patch
from kapi.server.admission.webhooks.review import JSON_PATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from kapi.api.meta import Object
    from kapi.base.http import Outbound
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.admission.webhooks.call import Caller
    from kapi.server.admission.webhooks.configurations import Candidate
    from kapi.server.admission.webhooks.functions import Function
    from kapi.server.admission.webhooks.objects import Versioned
    from kapi.server.admission.webhooks.review import AdmissionResponse
    from kapi.server.authz.authorizer import Authorizer
    from kapi.server.serviceaddress import ServiceOverrides

MUTATION: Final = "mutation.webhook.admission.k8s.io/"
PATCH: Final = "patch.webhook.admission.k8s.io/"
VALIDATION: Final = "validating.webhook.admission.k8s.io/"
FAILED_OPEN: Final = "failed-open."
"""The prefixes of audit annotations."""

MAX_ANNOTATION: Final = 100 * 1024
"""Longer values, patches above all, are not recorded, as longer bodies are not."""

_AT_ONCE: Final = 64
"""Webhooks that are called at the same time for one request; and that are matched with it before others have a turn."""

_now = time.perf_counter


class WebhookParts(NamedTuple):
    """The parts of a server that the plug-ins use."""

    catalog: Catalog
    authorizer: Authorizer
    outbound: Callable[[], Outbound]
    registry: CollectorRegistry
    forget: Callable[[], None]
    """Called when the answers of `handles` have changed."""
    overrides: ServiceOverrides
    functions: Sequence[Function] = ()
    """Functions of the program that embeds the server."""


class _WebhookPlugin:
    """The part that both plug-ins share: which webhooks are called, and what their failures mean."""

    _step: str
    """The name of the step in metrics."""

    def __init__(self, parts: WebhookParts, resource: str) -> None:
        self._parts = parts
        functions = [one for one in parts.functions if one.mutates is (resource == MUTATING)]
        self._configurations = Configurations(parts.catalog, resource, self._configured, functions)
        self._metrics = metrics_of(parts.registry)
        self._caller: Caller | None = None
        self._candidates: dict[tuple[str, Resource, str], tuple[Candidate, ...]] = {}
        parts.catalog.on_change.append(self._candidates.clear)

    def _configured(self) -> None:
        self._candidates.clear()
        self._parts.forget()

    async def prepare(self) -> None:
        """Read what has changed."""
        await self._configurations.prepare()

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if the rules of a webhook cover such requests."""
        return bool(self._candidates_of(operation, resource, subresource))

    def _candidates_of(self, operation: str, resource: Resource, subresource: str) -> tuple[Candidate, ...]:
        key = (operation, resource, subresource)
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = self._configurations.candidates(*key)
        return found

    async def _meets_conditions(self, candidate: Candidate, objects: AdmittedObjects) -> bool:
        """Return True if the conditions of a webhook, which has some, hold for a request that it selects."""
        webhook, write = candidate.webhook, objects.write
        # Imported and compiled here: most servers have no conditions, and the expression language is large.
        await asyncio.to_thread(importlib.import_module, "kapi.server.admission.matchconditions")
        from kapi.server.admission.celvariables import AdmittedObject

        versioned = await objects.at(candidate.match)
        match = candidate.match
        admitted = AdmittedObject(write, versioned.obj, versioned.old, match.resource, match.kind)
        conditions = await webhook.match_conditions.get()
        outcome = await conditions.match(admitted, self._parts.authorizer)
        if outcome.error:
            raise Forbidden.of(write.resource.group_resource, admitted_name(write, objects.obj), outcome.error)
        return outcome.matches

    async def _call(
        self, candidate: Candidate, write: Write, objects: Versioned, *, mutating: bool
    ) -> AdmissionResponse:
        caller = self._caller or await self._new_caller()
        response = await caller.call(candidate, write, objects, mutating=mutating)
        for key, value in response.annotations.items():
            annotate(write, f"{candidate.webhook.name}/{key}", value)
        write.warnings += response.warnings
        if not response.allowed:
            raise Denied(candidate.webhook.name, response.status)
        return response

    async def _new_caller(self) -> Caller:
        await asyncio.to_thread(importlib.import_module, "kapi.server.admission.webhooks.call")
        from kapi.server.admission.webhooks.call import Caller

        parts = self._parts
        caller = self._caller = Caller(parts.outbound(), parts.catalog, parts.overrides)
        return caller

    def _failed(self, candidate: Candidate, write: Write, error: Exception, seconds: float) -> ApiError | None:
        """Count a failure of a webhook; returns the error that refuses the request, None if it is ignored."""
        name, operation, metrics = candidate.webhook.name, write.operation, self._metrics
        refusal: ApiError | None
        if isinstance(error, CallFailed):
            kind, code = CALL_FAILED, error.code
            refusal = None if candidate.webhook.ignores_failure else InternalError.of(str(error))
        elif isinstance(error, Denied):
            kind, code, refusal = DENIED, error.code, error
        elif isinstance(error, ApiError):
            kind, code, refusal = SERVER_FAILED, 0, error
        else:
            raise error
        if refusal is None:
            metrics.failed_open(name, self._step)
        else:
            metrics.rejected(name, self._step, operation, kind, code)
        metrics.called(name, self._step, operation, seconds, code, rejected=refusal is not None)
        return refusal


def annotate(write: Write, key: str, value: str) -> None:
    """Add an audit annotation, unless its key is not valid or taken: as in Kubernetes, the first value stays."""
    if key.count("/") == 1 and not names.qualified_name(key):
        _record(write, key, value)


def _record(write: Write, key: str, value: str) -> None:
    """Add an audit annotation whose key is one of ours, and valid."""
    if len(value) <= MAX_ANNOTATION:
        write.audit_annotations.setdefault(key, value)


# -- mutating ---------------------------------------------------------------------------------------------------------


class _Invocations:
    """What is remembered between the two runs of the mutating chain for one write."""

    def __init__(self) -> None:
        self.reinvocable: set[str] = set()
        """Webhooks that were called and want to be called again after a later change."""
        self.due: set[str] = set()
        """Those to be called again."""
        self.last: Object | None = None
        """The object after the last webhook of the first run."""
        self.is_patched = False

    def changed(self) -> None:
        """Have the webhooks that were called before a change, and want it, called again."""
        self.due |= self.reinvocable
        self.reinvocable = set()


def _has_new_owners(objects: AdmittedObjects) -> bool:
    """Return True if this request has recorded owners of fields.

    Then the first patch counts as a change whatever it does, as in Kubernetes: the times of new owners are exact, and
    an object that was patched, as JSON, has them in whole seconds.
    """
    if objects.write.resource.custom is not None:
        return False  # A custom object is JSON all the time.
    return _owners(objects.obj) not in ([], _owners(objects.old))


def _owners(obj: Object | None) -> list[Object]:
    entries = (obj or {}).get("metadata", {}).get("managedFields") or []
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries]


class MutatingWebhooks(_WebhookPlugin):
    """MutatingAdmissionWebhook."""

    NAME: Final = "MutatingAdmissionWebhook"
    _step = "admit"

    def __init__(self, parts: WebhookParts) -> None:
        super().__init__(parts, MUTATING)

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Call the webhooks that match, in order."""
        reinvocation = reinvocation_of(write)
        state: _Invocations | None = reinvocation.values.get(self.NAME)
        if state is None:
            state = reinvocation.values[self.NAME] = _Invocations()
        if reinvocation.is_second and state.reinvocable and state.last != obj:
            state.changed()  # Another plug-in has changed the object since.
        objects, namespace = AdmittedObjects(write, obj, old), RequestNamespace(write)
        candidates = self._candidates_of(write.operation, write.resource, write.subresource)
        for number, candidate in enumerate(candidates, 1):
            webhook = candidate.webhook
            is_due = not reinvocation.is_second or webhook.uid in state.due
            # Conditions are evaluated in the second run as well, as in Kubernetes: they may fail on a changed object.
            if is_due or webhook.conditions:
                is_selected = webhook.selectors.match(namespace, obj, old)
                if is_selected and webhook.conditions:
                    is_selected = await self._meets_conditions(candidate, objects)
                is_due = is_due and is_selected
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if not is_due:
                continue
            changed = await self._invoke(candidate, objects, state, second=reinvocation.is_second)
            if changed:
                state.changed()
                reinvocation.requested = True
            if webhook.is_reinvoked:
                state.reinvocable.add(webhook.uid)
        if state.reinvocable:
            state.last = copy_of(obj)

    async def _invoke(
        self, candidate: Candidate, objects: AdmittedObjects, state: _Invocations, *, second: bool
    ) -> bool:
        """Call a webhook and apply its patch; returns True if that has changed the object."""
        write, webhook = objects.write, candidate.webhook
        place = f"round_{int(second)}_index_{candidate.position}"
        versioned = await objects.at(candidate.match)
        started = _now()
        changed = False
        try:
            response = await self._call(candidate, write, versioned, mutating=True)
            if response.patch:
                changed = await self._patch(candidate, objects, versioned, response, state, f"{PATCH}{place}")
        except Exception as error:
            refusal = self._failed(candidate, write, error, _now() - started)
            self._annotate_mutation(candidate, write, place, mutated=False)
            if refusal is not None:
                raise refusal from None
            _record(write, f"{FAILED_OPEN}{MUTATION}{place}", webhook.name)
            return False
        self._metrics.called(webhook.name, self._step, write.operation, _now() - started, 200, rejected=False)
        self._annotate_mutation(candidate, write, place, mutated=changed)
        return changed

    async def _patch(
        self,
        candidate: Candidate,
        objects: AdmittedObjects,
        versioned: Versioned,
        response: AdmissionResponse,
        state: _Invocations,
        annotation: str,
    ) -> bool:
        webhook, match, write = candidate.webhook, candidate.match, objects.write
        try:
            operations = decode_patch(response.patch)
        except UndecodablePatch as error:
            raise CallFailed(webhook, f"received undecodable patch in webhook response: {error}") from None
        if not operations.decoded:
            return False
        if versioned.obj is None or versioned.encoded is None:
            why = "attempted to modify the object, which is not supported for this operation"
            raise InternalError.of(f'admission webhook "{webhook.name}" {why}')
        if response.patch_type != JSON_PATCH:
            raise CallFailed(webhook, f'unsupported patch type "{response.patch_type}"', 400)
        size = len(response.patch) + len(versioned.encoded)
        is_decoded = versioned.obj is objects.obj and match.resource is write.resource
        patched = await apply_patch(versioned.obj, operations.decoded, match, size, is_decoded=is_decoded)
        _record(write, annotation, _patch_annotation(webhook.configuration, webhook.name, operations.shown))
        changed = patched.changed or (not state.is_patched and _has_new_owners(objects))
        state.is_patched = True
        objects.replace(await in_store(write, patched.obj, match.resource, match.kind))
        return changed

    def _annotate_mutation(self, candidate: Candidate, write: Write, place: str, *, mutated: bool) -> None:
        webhook = candidate.webhook
        _record(write, f"{MUTATION}{place}", _mutation_annotation(webhook.configuration, webhook.name, mutated))


@lru_cache(maxsize=256)
def _mutation_annotation(configuration: str, webhook: str, mutated: bool) -> str:
    return json.encode({"configuration": configuration, "webhook": webhook, "mutated": mutated}).decode()


def _patch_annotation(configuration: str, webhook: str, patch: bytes) -> str:
    """Return the annotation for a patch that is JSON; remembered for short ones, as their decoded form is."""
    if len(patch) <= SHORT_PATCH:
        return _remembered_patch(configuration, webhook, patch)
    return _encode_patch(configuration, webhook, patch)


def _encode_patch(configuration: str, webhook: str, patch: bytes) -> str:
    named = {"configuration": configuration, "webhook": webhook}
    return json.encode({**named, "patch": msgspec.Raw(patch), "patchType": JSON_PATCH}).decode()


_remembered_patch = lru_cache(maxsize=256)(_encode_patch)


# -- validating -------------------------------------------------------------------------------------------------------


class ValidatingWebhooks(_WebhookPlugin):
    """ValidatingAdmissionWebhook."""

    NAME: Final = "ValidatingAdmissionWebhook"
    _step = "validating"
    reads_only = True

    def __init__(self, parts: WebhookParts) -> None:
        super().__init__(parts, VALIDATING)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Call the webhooks that match, at the same time."""
        objects, namespace = AdmittedObjects(write, obj, old), RequestNamespace(write)
        called = []
        candidates = self._candidates_of(write.operation, write.resource, write.subresource)
        for number, candidate in enumerate(candidates, 1):
            webhook = candidate.webhook
            if webhook.selectors.match(namespace, obj, old) and (
                not webhook.conditions or await self._meets_conditions(candidate, objects)
            ):
                called.append((candidate, await objects.at(candidate.match)))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if not called:
            return
        if len(called) == 1:
            refusals = [await self._invoke(0, *called[0], write)]
        else:
            gate = asyncio.Semaphore(_AT_ONCE)
            refusals = await asyncio.gather(
                *(self._invoke_in_turn(gate, index, *one, write) for index, one in enumerate(called)),
            )
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    async def _invoke_in_turn(
        self, gate: asyncio.Semaphore, index: int, candidate: Candidate, objects: Versioned, write: Write
    ) -> ApiError | None:
        async with gate:
            return await self._invoke(index, candidate, objects, write)

    async def _invoke(self, index: int, candidate: Candidate, objects: Versioned, write: Write) -> ApiError | None:
        """Call a webhook; returns the error that refuses the request."""
        started = _now()
        try:
            await self._call(candidate, write, objects, mutating=False)
        except Exception as error:
            refusal = self._failed(candidate, write, error, _now() - started)
            if refusal is None:
                _record(write, f"{FAILED_OPEN}{VALIDATION}round_0_index_{index}", candidate.webhook.name)
            return refusal
        seconds = _now() - started
        self._metrics.called(candidate.webhook.name, self._step, write.operation, seconds, 200, rejected=False)
        return None
