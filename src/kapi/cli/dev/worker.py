"""The process of an operator under `kapi dev`: defines its kinds, runs it, and reports what it does.

Run as `python -m kapi.cli.dev.worker MODULE:NAME …` with $KUBECONFIG set; see `kapi.base.parent` and `report`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.api.crd import CustomResource
from kapi.api.errors import ApiError
from kapi.api.scheme import SCHEME
from kapi.base.parent import end_with_parent
from kapi.cli.command import USAGE
from kapi.cli.dev.report import MOST_TEXT, Kinds, Queues, Reconciled, ReportWriter
from kapi.cli.run import load, run_target
from kapi.client.client import Client
from kapi.client.errors import ClientError
from kapi.controller.observation import observe_reconciles, shown_key
from kapi.controller.program import FAILED, add_options
from kapi.scaffold.definitions import BadDefinition, definitions_of
from kapi.testing.manifests import definitions

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from kapi.api.meta import Object
    from kapi.controller.manager import Manager
    from kapi.controller.observation import Ended

FIELD_MANAGER: Final = "kapi-dev"
DEFINITIONS: Final = Path("config/crd")
"""The manifests of the project's definitions. A class of the same kind counts more: a manifest may be out of date."""

_QUEUE_SECONDS: Final = 1.0


def main() -> None:
    """Run an operator, and exit."""
    end_with_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--report", type=int, required=True)
    add_options(parser)
    sys.exit(run(parser.parse_args()))


def run(arguments: argparse.Namespace) -> int:
    """Define the kinds and run the operator; returns the exit status."""
    writer = ReportWriter(arguments.report)
    try:
        load(arguments.target)
        defined = project_definitions()
        asyncio.run(_install(defined))
    except (ImportError, AttributeError, TypeError, ValueError, BadDefinition) as error:
        sys.stderr.write(f"{arguments.target}: {error}\n")
        return USAGE
    except (ApiError, ClientError, OSError) as error:
        sys.stderr.write(f"the definitions cannot be installed: {error}\n")
        return FAILED
    return run_target(arguments, lambda manager: _follow(manager, defined, writer))


def project_definitions() -> list[Object]:
    """Return the definitions of the classes that are imported, and those of manifests for kinds without a class."""
    classes = [cls for cls in SCHEME.registered if issubclass(cls, CustomResource)]
    made = {one["metadata"]["name"]: one for one in definitions(sorted(DEFINITIONS.rglob("*.yaml")))}
    return list({**made, **{one["metadata"]["name"]: one for one in definitions_of(classes)}}.values())


async def _install(made: Sequence[Object]) -> None:
    async with Client.connect(field_manager=FIELD_MANAGER) as client:
        for one in made:
            await client.apply(one, force=True)


def _follow(manager: Manager, defined: Sequence[Object], writer: ReportWriter) -> None:
    """Report the manager's kinds now, and its reconciles and queues while it runs."""
    own = [kind for one in defined for kind in _served(one)]
    watched = {(gvk.group, gvk.version, gvk.kind) for gvk, *_ in manager.informers.informers} - set(own)
    writer.send(Kinds(own, sorted(watched)))
    queues = {controller.name: controller.queue for controller in manager.controllers}

    def began(controller: str, request: Hashable, identity: str) -> Ended:
        started = manager.clock.monotonic()

        def ended(result: str) -> None:
            seconds = manager.clock.monotonic() - started
            text = " ".join(result.split())[:MOST_TEXT]
            writer.send(Reconciled(controller, *shown_key(request), text, seconds, len(queues[controller])))

        return ended

    observe_reconciles(manager, began)
    manager.add(_QueueReports(manager, writer))


def _served(definition: Object) -> list[tuple[str, str, str]]:
    """The version of a definition that is stored: every object can be read in it."""
    spec = definition["spec"]
    versions = spec.get("versions") or [{"name": spec.get("version"), "storage": True}]
    return [(spec["group"], one["name"], spec["names"]["kind"]) for one in versions if one.get("storage")]


class _QueueReports:
    """Reports the queues when they change, also while no reconcile ends."""

    name = "queue reports"
    needs_leader_election = False

    def __init__(self, manager: Manager, writer: ReportWriter) -> None:
        self._manager = manager
        self._writer = writer
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Run until stopped."""
        last: dict[str, int] = {}
        while not self._stopping.is_set():
            queued = {controller.name: len(controller.queue) for controller in self._manager.controllers}
            if queued != last:
                self._writer.send(Queues(queued))
                last = queued
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_QUEUE_SECONDS):
                    await self._stopping.wait()

    def stop(self) -> None:
        """Stop."""
        self._stopping.set()


if __name__ == "__main__":
    main()
