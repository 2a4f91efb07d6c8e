"""One pass over one Network: desired state is the object, actual state is what the backend has.

Level-based: a pass compares the two and does not depend on what led to it, so it may be repeated at any time and
interrupted at any point. The finalizer is stored before anything is created; what is created carries the UID of the
object; the status is written last and only tells.
"""

import copy

import msgspec

from kapi import (
    Client,
    Conflict,
    EventRecorder,
    NotFound,
    TerminalError,
    ensure_finalizer,
    is_deleting,
    remove_finalizer,
    set_condition,
)
from kapi.api.errors import Invalid
from kapi.controller.objects.conditions import find_condition
from kapi.controller.objects.finalizer import has_finalizer

from .backend import Actual, Backend, BackendError, Unavailable, Wanted
from .kind import FINALIZER, READY, Network, NetworkStatus, problem_of


class NetworkSync:
    """Makes the backend agree with objects, and their status tell of it."""

    def __init__(self, client: Client, events: EventRecorder, backend: Backend) -> None:
        self._client = client
        self._events = events
        self._backend = backend

    async def sync(self, network: Network) -> None:
        """Make one pass.

        Raises:
            BackendError: the backend failed; the status and an Event say how. To be tried again.
            TerminalError: the spec is not valid; to be tried when it has changed.
        """
        if is_deleting(network):
            await self._finalize(network)
            return
        if problem := problem_of(network.spec):
            await self._report(network, "False", "InvalidSpec", problem)
            raise TerminalError(problem)
        try:
            await ensure_finalizer(self._client, network, FINALIZER)
        except (NotFound, Invalid):
            return  # it has been deleted meanwhile, which is an event of its own
        try:
            actual = await self._backend.ensure(_wanted(network))
        except BackendError as error:
            await self._report_failure(network, error)
            raise
        await self._report_success(network, actual)

    async def _finalize(self, network: Network) -> None:
        """Delete what was made for an object, then let the object be deleted."""
        if not has_finalizer(network, FINALIZER):
            return
        wanted = _wanted(network)
        try:
            existed = await self._backend.delete(wanted.uid, wanted.namespace, wanted.network_id)
        except BackendError as error:
            await self._report_failure(network, error)
            raise
        if existed:
            self._events.normal(network, "Deleted", f"deleted the network ({self._backend.name})")
        await remove_finalizer(self._client, network, FINALIZER)

    async def _report_success(self, network: Network, actual: Actual) -> None:
        before = _status(network)
        message = f"network {actual.network_id} has subnet {network.spec.cidr}"
        await self._report(network, "True", "Reconciled", message, actual)
        if actual.changes:
            self._events.normal(network, _cause(network), "; ".join(actual.changes))
        elif not before.network_id:
            self._events.normal(
                network, "Adopted", f"found network {actual.network_id}, which was made for this object"
            )

    async def _report_failure(self, network: Network, error: BackendError) -> None:
        # Of a backend that cannot be asked it is not known whether the network is as it should be.
        status = "Unknown" if isinstance(error, Unavailable) else "False"
        actual = Actual(error.network_id, "") if error.network_id else None
        await self._report(network, status, error.reason, str(error), actual)
        self._events.warning(network, error.reason, str(error))

    async def _report(
        self, network: Network, status: str, reason: str, message: str, actual: Actual | None = None
    ) -> None:
        """Write the status, if it differs from what is known of it."""
        generation = network.metadata.generation or 0
        wanted = copy.deepcopy(_status(network))
        wanted.backend = self._backend.name
        if actual is not None:
            wanted.network_id = actual.network_id
            wanted.subnet_id = actual.subnet_id or wanted.subnet_id
        if status == "True":
            wanted.observed_generation = generation
        set_condition(wanted.conditions, READY, status, reason=reason, message=message, observed_generation=generation)
        if wanted == _status(network):
            return
        # The UID is a precondition: another object may have the name by now.
        patch = {"metadata": {"uid": network.metadata.uid}, "status": msgspec.to_builtins(wanted)}
        try:
            await self._client.patch_status(network, patch)
        except (NotFound, Conflict):
            return  # it is gone, and its status with it


def _wanted(network: Network) -> Wanted:
    metadata, spec = network.metadata, network.spec
    return Wanted(
        uid=metadata.uid or "",
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        cidr=spec.cidr,
        gateway=spec.gateway,
        network_id=_status(network).network_id,
    )


def _status(network: Network) -> NetworkStatus:
    return network.status or NetworkStatus()


def _cause(network: Network) -> str:
    """The reason of the Event about a change: the object is new, or was changed, or the network was."""
    status = _status(network)
    if not status.network_id:
        return "Created"
    ready = find_condition(status.conditions, READY)
    was_right = ready is not None and ready.status == "True"
    return "Repaired" if was_right and status.observed_generation == network.metadata.generation else "Updated"
