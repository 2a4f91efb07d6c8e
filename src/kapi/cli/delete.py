"""`kapi delete`: delete objects, and wait until they are gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from kapi.cli.printer import CommandError, complain, emit, kind_name, with_source

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kapi.api.meta import Object
    from kapi.cli.manifests import Manifest
    from kapi.cli.session import Session
    from kapi.client import APIResource, ResourceClient

CASCADES: Final = {"background": "Background", "orphan": "Orphan", "foreground": "Foreground"}


class _Target(NamedTuple):
    resource: APIResource
    client: ResourceClient
    name: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """One `delete` and its options. Without `timeout` seconds it waits as long as it takes."""

    cascade: str = "background"
    grace_period: int = -1
    force: bool = False
    wait: bool = True
    timeout: float = 0
    ignore_not_found: bool = False
    label_selector: str = ""
    field_selector: str = ""
    everything: bool = False
    all_namespaces: bool = False
    dry_run: str = "none"
    output: str = ""

    def __post_init__(self) -> None:
        if self.cascade not in CASCADES:
            raise CommandError(f'--cascade="{self.cascade}": expected one of {", ".join(CASCADES)}')
        if self.force and self.grace_period > 0:
            raise CommandError("--force and --grace-period greater than 0 cannot be specified together")
        if self.everything and (self.label_selector or self.field_selector):
            raise CommandError("cannot set --all and a selector at the same time")
        if self.dry_run not in ("none", "server"):
            raise CommandError(f'--dry-run="{self.dry_run}": expected none or server')
        if self.output not in ("", "name"):
            raise CommandError(f"unexpected -o output mode: {self.output}. We only support '-o name'")

    @property
    def _bulk(self) -> bool:
        return bool(self.everything or self.label_selector or self.field_selector)

    @property
    def _grace(self) -> int | None:
        """Return the grace period to send; 0 only with `--force`."""
        if self.force:
            return 0
        return None if self.grace_period < 0 else max(self.grace_period, 1)

    async def run(self, session: Session, arguments: Sequence[str], manifests: Sequence[Manifest] | None) -> None:
        """Delete what arguments or manifests name."""
        if self.force:
            complain(
                "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
                "terminated. The resource may continue to run on the cluster indefinitely."
            )
        gone: list[tuple[_Target, str]] = []
        count = 0
        async for target in self._targets(session, arguments, manifests):
            count += 1
            try:
                answer = await self._delete(target)
            except NotFound as error:
                if not self.ignore_not_found and not self._bulk:
                    session.failures.append(error)
            except ApiError as error:
                session.failures.append(error)
            else:
                gone.append((target, _uid(answer)))
        if not count and not session.failures:
            emit("No resources found\n")
        # As kubectl: when something failed, waiting for the rest would only hide it.
        if self.wait and self.dry_run == "none" and not session.failures:
            await self._wait(gone)

    async def _delete(self, target: _Target) -> Object:
        try:
            answer = await target.client.delete(
                target.name,
                propagation=CASCADES[self.cascade],
                grace_period=self._grace,
                dry_run=self.dry_run == "server",
            )
        except ApiError as error:
            raise with_source(error, "deleting", target.source) if target.source else error from None
        self._report(target)
        return answer

    def _report(self, target: _Target) -> None:
        kind = kind_name(target.resource)
        if self.output == "name":
            emit(f"{kind}/{target.name}\n")
            return
        operation = "force deleted" if self._grace == 0 else "deleted"
        place = f" from {target.client.namespace} namespace" if target.resource.namespaced else ""
        suffix = " (server dry run)" if self.dry_run == "server" else ""
        emit(f'{kind} "{target.name}" {operation}{place}{suffix}\n')

    async def _targets(
        self, session: Session, arguments: Sequence[str], manifests: Sequence[Manifest] | None
    ) -> AsyncIterator[_Target]:
        if manifests is not None:
            if arguments or self._bulk:
                raise CommandError("give either files or resources, not both")
            for manifest in manifests:
                try:
                    resource, namespace = await session.locate(manifest)
                    if not manifest.name:
                        raise CommandError(
                            f"{manifest.source}: metadata.name is not set; only an object with a name can be deleted"
                        )
                except CommandError as error:
                    session.failures.append(error)
                else:
                    yield _Target(resource, session.client(resource, namespace), manifest.name, manifest.source)
            return
        for resource, name in await session.targets(arguments):
            if name and self._bulk:
                raise CommandError("name cannot be provided when a selector is specified")
            if name:
                yield _Target(resource, session.client(resource), name)
            elif self._bulk:
                for found in await self._selected(session, resource):
                    yield found
            else:
                raise CommandError("resource(s) were provided, but no name was specified")

    async def _selected(self, session: Session, resource: APIResource) -> list[_Target]:
        listed = session.client(resource, "" if self.all_namespaces else session.namespace)
        return [
            _Target(resource, session.client(resource, item["metadata"].get("namespace", "")), item["metadata"]["name"])
            async for page in listed.pages(label_selector=self.label_selector, field_selector=self.field_selector)
            for item in page.get("items") or []
        ]

    async def _wait(self, gone: list[tuple[_Target, str]]) -> None:
        try:
            async with asyncio.timeout(self.timeout or None):
                for target, uid in gone:
                    await _until_gone(target.client, target.name, uid)
        except TimeoutError:
            raise CommandError(
                f"timed out after {self.timeout:g} s waiting for the deletion of {target.resource}/{target.name}"
            ) from None
        except (Forbidden, MethodNotAllowed):
            pass  # the user may delete but not list or watch


async def _until_gone(client: ResourceClient, name: str, uid: str) -> None:
    """Return once there is no object of that name, or another one."""
    only = f"metadata.name={name}"
    while True:
        listed = await client.list(field_selector=only)
        if all(_is_other(item, name, uid) for item in listed.get("items") or []):
            return
        version = listed["metadata"]["resourceVersion"]
        async with client.watch(resource_version=version, field_selector=only) as events:
            async for event in events:
                if _is_other(event.object, name, uid):
                    if (event.object.get("metadata") or {}).get("name") == name:
                        return
                elif event.type == "DELETED":
                    return


def _is_other(obj: Object, name: str, uid: str) -> bool:
    # Servers that do not know the selector list everything, so names are compared too.
    metadata = obj.get("metadata") or {}
    return bool(metadata.get("name") != name or (uid and metadata.get("uid") != uid))


def _uid(answer: Object) -> str:
    """The deleted object's uid, from the Status or the object that a delete is answered with."""
    where = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
    return str((where or {}).get("uid") or "")
