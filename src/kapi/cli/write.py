"""`kapi create`, `kapi replace` and `kapi patch`: imperative writes. The declarative one is `kapi apply`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError, NotFound, UnsupportedMediaType
from kapi.api.patch.mergepatch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapi.cli.printer import CommandError, ObjectPrinter, emit, kind_name, with_source
from kapi.codec import yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kapi.api.meta import Object
    from kapi.cli.manifests import Manifest
    from kapi.cli.session import Session
    from kapi.client import APIResource, ResourceClient

OUTPUTS: Final = ("name", "yaml", "json")
VALIDATIONS: Final = {"strict": "Strict", "true": "Strict", "warn": "Warn", "ignore": "Ignore", "false": "Ignore"}
PATCH_TYPES: Final = {"json": JSON_PATCH, "merge": MERGE_PATCH, "strategic": STRATEGIC_MERGE_PATCH}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options that writes share. The field managers are kubectl's, since the commands mean the same."""

    field_manager: str
    dry_run: bool = False
    validation: str | None = None
    output: str = ""

    @classmethod
    def of(
        cls, field_manager: str, *, dry_run: str = "none", validate: str = "strict", output: str = ""
    ) -> WriteOptions:
        """From options as they are typed."""
        if dry_run not in ("none", "server"):
            raise CommandError(f'--dry-run="{dry_run}": expected none or server; there is no dry run without a server')
        if validate not in VALIDATIONS:
            raise CommandError(f'--validate="{validate}": expected strict, warn or ignore')
        if output and output not in OUTPUTS:
            raise CommandError(f'-o "{output}": expected one of {", ".join(OUTPUTS)}')
        return cls(field_manager, dry_run == "server", VALIDATIONS[validate], output)

    @property
    def query(self) -> dict[str, Any]:
        """Return the query parameters of a write."""
        return {"field_manager": self.field_manager, "dry_run": self.dry_run, "field_validation": self.validation}

    def report(self, resource: APIResource, obj: Object, operation: str) -> None:
        """Print what was done to an object."""
        if self.output:
            emit(ObjectPrinter(self.output).text(obj))
        else:
            name = (obj.get("metadata") or {}).get("name") or "<unknown>"
            suffix = " (server dry run)" if self.dry_run else ""
            emit(f"{kind_name(resource)}/{name} {operation}{suffix}\n")


async def create_objects(session: Session, manifests: Iterable[Manifest], options: WriteOptions) -> None:
    """Create objects; one that is there already is an error."""

    async def one(manifest: Manifest, resource: APIResource, client: ResourceClient) -> None:
        try:
            made = await client.create(manifest.obj, **options.query)
        except ApiError as error:
            raise with_source(error, "creating", manifest.source) from None
        options.report(resource, made, "created")

    await each(session, manifests, one, "create")


async def replace_objects(session: Session, manifests: Iterable[Manifest], options: WriteOptions) -> None:
    """Replace objects.

    A manifest with a resourceVersion replaces that version and no other: `Conflict` when the object was changed since.
    One without replaces any version.
    """

    async def one(manifest: Manifest, resource: APIResource, client: ResourceClient) -> None:
        try:
            obj = await _at_current_version(client, manifest)
            written = await client.replace(obj, **options.query)
        except ApiError as error:
            raise with_source(error, "replacing", manifest.source) from None
        options.report(resource, written, "replaced")

    await each(session, manifests, one, "replace")


async def _at_current_version(client: ResourceClient, manifest: Manifest) -> Object:
    metadata = manifest.obj["metadata"]
    if not manifest.name:
        raise CommandError(f"{manifest.source}: metadata.name is not set; only an object with a name can be replaced")
    if metadata.get("resourceVersion"):
        return manifest.obj
    live = await client.get(manifest.name)
    return {**manifest.obj, "metadata": {**metadata, "resourceVersion": live["metadata"]["resourceVersion"]}}


async def patch_objects(
    session: Session,
    arguments: Sequence[str],
    document: Any,
    patch_type: str,
    options: WriteOptions,
    *,
    subresource: str = "",
) -> None:
    """Change objects by a patch."""
    targets = await session.targets(arguments)
    if any(not target.name for target in targets):
        raise CommandError("resource(s) were provided, but no name was specified")
    for resource, name in targets:
        client = session.client(resource)
        try:
            before = await session.get(resource, name, subresource=subresource)
            query: dict[str, Any] = {"field_manager": options.field_manager, "dry_run": options.dry_run}
            after = await client.patch(name, document, PATCH_TYPES[patch_type], subresource=subresource, **query)
        except UnsupportedMediaType as error:
            kind = f"{resource.gvk.api_version}, Kind={resource.kind}"
            session.failures.append(
                CommandError(f"{PATCH_TYPES[patch_type]} is not supported by {kind}: {error.message}")
            )
        except ApiError as error:
            session.failures.append(error)
        else:
            options.report(resource, after, "patched" if after != before else "patched (no change)")


def read_patch(text: str | None, file: str | None) -> Any:
    """The patch given on the command line, as JSON or YAML, or in a file."""
    if text and file:
        raise CommandError("cannot specify --patch and --patch-file together")
    if not text and not file:
        raise CommandError("must specify --patch or --patch-file containing the contents of the patch")
    try:
        return yaml.decode(Path(file).read_bytes() if file else (text or "").encode())
    except OSError as error:
        raise CommandError(f"unable to read patch file: {file}: {error.strerror or error}") from None
    except DecodeError as error:
        raise CommandError(f'unable to parse "{file or text}": {error}') from None


async def each(
    session: Session,
    manifests: Iterable[Manifest],
    work: Callable[[Manifest, APIResource, ResourceClient], Awaitable[None]],
    command: str,
) -> None:
    """Do something with every manifest; one that fails does not stop the others."""
    count = 0
    for manifest in manifests:
        count += 1
        try:
            resource, namespace = await session.locate(manifest)
            await work(manifest, resource, session.client(resource, namespace))
        except (ApiError, CommandError) as error:
            session.failures.append(error)
    if not count:
        raise CommandError(f"no objects passed to {command}")


async def fetch(client: ResourceClient, name: str) -> Object | None:
    """The object as it is on the server, if it is."""
    try:
        return await client.get(name)
    except NotFound:
        return None
