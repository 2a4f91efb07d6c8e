"""One run of `kapi dev`: a control plane of its own, the operator in a child process, and the view of both."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError
from kapi.api.meta import GroupVersionKind
from kapi.cli.dev.files import ProjectFiles
from kapi.cli.dev.program import Program, Reloader, stopped_by_signals
from kapi.cli.dev.report import Kinds, Queues, Reconciled, read_reports
from kapi.client.errors import ClientError
from kapi.informer.factory import SharedInformerFactory
from kapi.testing.manifests import objects_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kapi.api.meta import Object
    from kapi.cli.dev.view import View
    from kapi.client.client import Client
    from kapi.controlplane.assemble import ControlPlane

EVENTS: Final = GroupVersionKind("events.k8s.io", "v1", "Event")
ONCE_SECONDS: Final = 60.0
"""The time within which all objects have to be reconciled with `--once`."""


class Session:
    """Runs the operator and shows it until it is stopped. `samples` are applied when its kinds are first defined."""

    def __init__(
        self, plane: ControlPlane, client: Client, view: View, arguments: Sequence[str], samples: Sequence[Path]
    ) -> None:
        self._plane = plane
        self._client = client
        self._view = view
        self._arguments = arguments
        self._samples = samples
        self._informers = SharedInformerFactory(client.rest, mapper=client.mapper)
        self._shown: set[GroupVersionKind] = set()
        self._own: set[GroupVersionKind] = set()
        self._reading: set[asyncio.Task[None]] = set()
        self._are_applied = not samples
        self._unreconciled: set[tuple[str, str]] = set()
        self._is_done = asyncio.Event()

    async def run(self, root: Path, *, once: bool) -> int:
        """Run until SIGINT, SIGTERM or SIGHUP; with `once`, until every sample is reconciled. Returns the status."""
        async with self._informers:
            self._informers.informer(EVENTS).add_handler(_Events(self._view))
            drawing = asyncio.ensure_future(self._view.run())
            try:
                return await (self._once() if once else self._until_stopped(root))
            finally:
                drawing.cancel()
                for task in self._reading:
                    task.cancel()
                await asyncio.gather(drawing, *self._reading, return_exceptions=True)

    async def _until_stopped(self, root: Path) -> int:
        reloader = Reloader(self._start, ProjectFiles(root), self._view.state)
        with stopped_by_signals(reloader.stop):
            running = asyncio.ensure_future(reloader.run())
            ends: list[asyncio.Future[Any]] = [running, self._plane.failed]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            reloader.stop()
            status = await running
        return 1 if self._plane.failed.done() else status

    async def _once(self) -> int:
        stopping = asyncio.Event()
        with stopped_by_signals(stopping.set):
            program = await self._start()
            ends = [asyncio.ensure_future(one) for one in (self._is_done.wait(), program.wait(), stopping.wait())]
            try:
                await asyncio.wait(ends, timeout=ONCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                status = await program.stop()
                for task in ends:
                    task.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        if self._is_done.is_set():
            self._view.state("every object is reconciled")
            return 0
        missing = ", ".join("/".join(key).lstrip("/") for key in sorted(self._unreconciled)) or "nothing to reconcile"
        self._view.state(f"ended with status {status} before every object was reconciled: {missing}")
        return 1

    # -- the operator -------------------------------------------------------------------------------------------------

    async def _start(self) -> Program:
        self._view.state("starting")
        reading, writing = os.pipe()
        try:
            program = await Program.start(
                ["-m", "kapi.cli.dev.worker", f"--report={writing}", *self._arguments],
                environment={"KUBECONFIG": str(self._plane.options.kubeconfig_path.absolute())},
                output=self._view.log,
                pass_fds=(writing,),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        task = asyncio.ensure_future(self._read(reading))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return program

    async def _read(self, fd: int) -> None:
        async with contextlib.aclosing(read_reports(fd)) as reports:
            async for report in reports:
                match report:
                    case Kinds():
                        self._view.state("running")
                        self._show(report)
                        await self._apply_samples()
                    case Queues():
                        self._view.queues(report.queued)
                    case Reconciled():
                        self._view.reconciled(report)
                        if report.is_ok:
                            self._note_reconciled(report)

    def _note_reconciled(self, report: Reconciled) -> None:
        self._unreconciled.discard((report.namespace, report.name))
        if self._are_applied and not self._unreconciled:
            self._is_done.set()

    # -- objects ------------------------------------------------------------------------------------------------------

    def _show(self, kinds: Kinds) -> None:
        """Follow the kinds that are not followed yet; objects of kinds that it only watches if it owns them."""
        own = {GroupVersionKind(*one) for one in kinds.own}
        self._own |= own
        for gvk in own | {GroupVersionKind(*one) for one in kinds.watched}:
            if gvk not in self._shown:
                self._shown.add(gvk)
                self._informers.informer(gvk).add_handler(_Objects(self._view, None if gvk in own else self._own))

    async def _apply_samples(self) -> None:
        """Apply the samples, once: what the user changed since is not undone when the operator is restarted."""
        if self._are_applied:
            return
        for sample in objects_of(self._samples):
            name = (sample.get("metadata") or {}).get("name")
            if not name or str(sample.get("apiVersion")).startswith("kustomize."):
                continue
            try:
                applied = await self._client.apply(sample, force=True)
            except (ApiError, ClientError) as error:
                self._view.state(f"{sample.get('kind')} {name} cannot be applied: {error}")
            else:
                if self._is_own(applied):
                    self._unreconciled.add((applied["metadata"].get("namespace") or "", name))
        self._are_applied = True

    def _is_own(self, obj: Object) -> bool:
        return any(obj["kind"] == gvk.kind and obj["apiVersion"].startswith(f"{gvk.group}/") for gvk in self._own)


class _Objects:
    """Shows the objects of a kind; with `owners`, only those owned by an object of one of those kinds."""

    def __init__(self, view: View, owners: set[GroupVersionKind] | None) -> None:
        self._view = view
        self._owners = owners

    def on_add(self, obj: Object, *, initial: bool) -> None:
        """An object is there."""
        if self._is_shown(obj):
            self._view.changed(obj, is_deleted=False)

    def on_update(self, old: Object, new: Object) -> None:
        """An object has changed."""
        if self._is_shown(new):
            self._view.changed(new, is_deleted=False)

    def on_delete(self, obj: Object, *, stale: bool) -> None:
        """An object is gone."""
        if self._is_shown(obj):
            self._view.changed(obj, is_deleted=True)

    def _is_shown(self, obj: Object) -> bool:
        if self._owners is None:
            return True
        kinds = {(owner.group, owner.kind) for owner in self._owners}
        references: list[dict[str, Any]] = obj["metadata"].get("ownerReferences") or []
        return any((one["apiVersion"].partition("/")[0], one["kind"]) in kinds for one in references)


class _Events:
    """Shows Events, and repetitions of one again."""

    def __init__(self, view: View) -> None:
        self._view = view

    def on_add(self, obj: Object, *, initial: bool) -> None:
        """An Event was recorded."""
        self._view.event(obj)

    def on_update(self, old: Object, new: Object) -> None:
        """An Event was counted again."""
        self._view.event(new)

    def on_delete(self, obj: Object, *, stale: bool) -> None:
        """An Event has expired."""
