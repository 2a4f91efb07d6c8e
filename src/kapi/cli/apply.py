"""`kapi apply`: create or change objects to match manifests.

Client-side apply is a three-way merge of the last applied configuration (an annotation), the manifest and the live
object; with `--server-side` the server merges and records field ownership. With `--prune`, objects that were applied
earlier and are in no manifest any more are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError, Conflict
from kapi.api.meta import GroupVersionKind, is_deleting
from kapi.api.patch.clientapply import apply_patch, with_last_applied
from kapi.api.patch.creation import PatchCreationError
from kapi.api.patch.lastapplied import ANNOTATION
from kapi.api.patch.mergepatch import without_nulls
from kapi.api.selectors import LabelSelector, SelectorError
from kapi.cli.printer import CommandError, complain, with_source
from kapi.cli.write import each, fetch
from kapi.client.errors import NoMatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cli.manifests import Manifest
    from kapi.cli.session import Session
    from kapi.cli.write import WriteOptions
    from kapi.client import APIResource, ResourceClient

RETRIES: Final = 5
"""The number of retries of a patch after a conflict."""

_CONFLICT_ADVICE: Final = """
Other managers own the fields above. There are three ways out:
* to own them, run the command again with --force-conflicts;
* to leave them to their managers, take them out of the manifest;
* to share them, set them to the values they have now."""

# The kinds that kubectl prunes by default.
_PRUNED: Final = (
    *(GroupVersionKind("", "v1", kind) for kind in ("ConfigMap", "Endpoints", "PersistentVolumeClaim", "Pod")),
    *(GroupVersionKind("", "v1", kind) for kind in ("ReplicationController", "Secret", "Service")),
    *(GroupVersionKind("batch", "v1", kind) for kind in ("Job", "CronJob")),
    GroupVersionKind("networking.k8s.io", "v1", "Ingress"),
    *(GroupVersionKind("apps", "v1", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    *(GroupVersionKind("", "v1", kind) for kind in ("Namespace", "PersistentVolume")),
)


@dataclass(slots=True)
class Apply:
    """One `apply`: its options, and the objects it has seen, for pruning."""

    options: WriteOptions
    server_side: bool = False
    force_conflicts: bool = False
    selector: str = ""
    prune: bool = False
    prune_all: bool = False
    prune_kinds: Sequence[str] = ()
    _seen: set[str] = field(default_factory=set)
    _namespaces: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.force_conflicts and not self.server_side:
            raise CommandError("--force-conflicts only works with --server-side")
        if self.prune and not self.selector and not self.prune_all:
            raise CommandError(
                "all resources selected for prune without explicitly passing --all. To prune all resources, pass the "
                "--all flag. If you did not mean to prune all resources, specify a label selector"
            )
        if self.prune_all and self.selector:
            raise CommandError("cannot set --all and --selector at the same time")

    async def run(self, session: Session, manifests: Iterable[Manifest]) -> None:
        """Apply all manifests that the selector selects, then prune unless something failed."""
        await each(session, self._selected(manifests), self._one, "apply")
        if self.prune and not session.failures:
            await self._prune(session)

    def _selected(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        try:
            selector = LabelSelector.parse(self.selector)
        except SelectorError as error:
            raise CommandError(str(error)) from None
        # Labels that are no labels are for the server to refuse, not for a selector to trip over.
        return [manifest for manifest in manifests if not selector or selector.matches(_labels(manifest))]

    async def _one(self, manifest: Manifest, resource: APIResource, client: ResourceClient) -> None:
        if not manifest.name:
            if generated := manifest.obj["metadata"].get("generateName"):
                raise CommandError(f"from {generated}: cannot use generate name with apply")
            raise CommandError(
                f"{manifest.source}: metadata.name is not set; only an object with a name can be applied"
            )
        self._namespaces.add(client.namespace)
        if self.server_side:
            after, operation = await self._on_server(client, manifest), "serverside-applied"
        else:
            after, operation = await self._from_client(client, manifest, resource)
        self._seen.add(after["metadata"].get("uid", ""))
        if is_deleting(after):
            complain(f"Warning: Detected changes to resource {manifest.name} which is currently being deleted.")
        self.options.report(resource, after, operation)

    async def _on_server(self, client: ResourceClient, manifest: Manifest) -> Object:
        try:
            return await client.apply(manifest.obj, force=self.force_conflicts, **self.options.query)
        except Conflict as error:
            raise CommandError(error.message + _CONFLICT_ADVICE) from None

    async def _from_client(
        self, client: ResourceClient, manifest: Manifest, resource: APIResource
    ) -> tuple[Object, str]:
        live = await fetch(client, manifest.name)
        if live is None:
            try:
                # Nulls mean "delete this" in a patch; in a new object there is nothing to delete.
                body = without_nulls(with_last_applied(manifest.obj))
                return await client.create(body, **self.options.query), "created"
            except ApiError as error:
                raise with_source(error, "creating", manifest.source) from None
        if ANNOTATION not in (live["metadata"].get("annotations") or {}):
            complain(
                f"Warning: resource {resource.resource}/{manifest.name} is missing the {ANNOTATION} annotation which "
                "is required by kapi apply. kapi apply should only be used on resources created declaratively. The "
                "missing annotation will be patched automatically."
            )
        return await self._patched(client, manifest, live)

    async def _patched(self, client: ResourceClient, manifest: Manifest, live: Object) -> tuple[Object, str]:
        schema = _merge_schema(manifest.gvk)
        for attempt in range(RETRIES + 1):
            try:
                change = apply_patch(live, manifest.obj, schema)
            except PatchCreationError as error:
                raise CommandError(f'error when applying "{manifest.source}": {error}') from None
            if change is None:
                return live, "unchanged"
            try:
                return await client.patch(manifest.name, change[1], change[0], **self.options.query), "configured"
            except Conflict as error:
                if attempt == RETRIES:
                    raise with_source(error, "patching", manifest.source) from None
                live = await client.get(manifest.name)
            except ApiError as error:
                raise with_source(error, "patching", manifest.source) from None
        raise AssertionError("unreachable: the last try raises")

    # -- pruning ------------------------------------------------------------------------------------------------------

    async def _prune(self, session: Session) -> None:
        for resource in await self._prunable(session):
            namespaces = sorted(self._namespaces - {""}) if resource.namespaced else [""]
            for namespace in namespaces:
                await self._prune_in(session.client(resource, namespace), resource)

    async def _prunable(self, session: Session) -> list[APIResource]:
        if self.prune_kinds:
            return [await session.mapper.by_kind(_parse_kind(text)) for text in self.prune_kinds]
        found = []
        for gvk in _PRUNED:
            try:
                resource = await session.mapper.by_kind(gvk)
            except NoMatch:
                continue
            # A user who names a namespace does not expect cluster-scoped objects to be deleted.
            if resource.namespaced or not session.namespace_given:
                found.append(resource)
        return found

    async def _prune_in(self, client: ResourceClient, resource: APIResource) -> None:
        stale = [
            item
            async for page in client.pages(label_selector=self.selector)
            for item in page.get("items") or []
            if ANNOTATION in (item["metadata"].get("annotations") or {}) and item["metadata"]["uid"] not in self._seen
        ]
        for item in stale:
            metadata = item["metadata"]
            if is_deleting(item):
                continue
            await client.delete(
                metadata["name"], propagation="Background", uid=metadata["uid"], dry_run=self.options.dry_run
            )
            self.options.report(resource, item, "pruned")


def _merge_schema(gvk: GroupVersionKind) -> Any:
    """Return how the lists of a built-in kind merge; None for other kinds."""
    from kapi.schema.builtin.typed import kind_schema

    try:
        return kind_schema(*gvk).merge
    except KeyError:
        return None


def _labels(manifest: Manifest) -> dict[str, str]:
    labels = manifest.obj["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def _parse_kind(text: str) -> GroupVersionKind:
    parts = text.split("/")
    if len(parts) != 3:
        raise CommandError(f"invalid GroupVersionKind format: {text}, please follow <group/version/kind>")
    group, version, kind = parts
    return GroupVersionKind("" if group == "core" else group, version, kind)
