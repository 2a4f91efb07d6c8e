"""The commands that talk to a server, as typer sees them: get, watch, create, replace, apply, patch and delete.

Only options are declared here. What the commands do is imported when one runs, so that `kapi --help` and `kapi up` do
not pay for a client they do not use. Annotations are real objects in this module, because typer reads them.
"""

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.cli.manifests import Manifest
    from kapi.cli.session import Connection, Session

    Work = Callable[[Session], Awaitable[None]]

_PANEL = "Connection"

Arguments = Annotated[
    list[str] | None,
    Argument(
        metavar="TYPE[/NAME]", help="A type and names, or TYPE/NAME; types can be joined by commas.", show_default=False
    ),
]
Files = Annotated[
    list[str] | None,
    Option(
        "--filename", "-f", metavar="PATH", help="A manifest, a folder of them, or - for standard input; repeatable."
    ),
]
Recursive = Annotated[bool, Option("--recursive", "-R", help="Folders with everything below them.")]
Selector = Annotated[str, Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels.")]
FieldSelector = Annotated[str, Option("--field-selector", metavar="FIELDS", help="Only objects with these fields.")]
AllNamespaces = Annotated[bool, Option("--all-namespaces", "-A", help="In every namespace.")]
ReadOutput = Annotated[str, Option("--output", "-o", metavar="FORMAT", help="wide, yaml, json or name.")]
WriteOutput = Annotated[str, Option("--output", "-o", metavar="FORMAT", help="name, yaml or json.")]
DryRun = Annotated[str, Option("--dry-run", metavar="none|server", help="server: check everything, store nothing.")]
Validate = Annotated[str, Option("--validate", metavar="strict|warn|ignore", help="What unknown fields are.")]
FieldManager = Annotated[str, Option("--field-manager", metavar="NAME", help="Who the changed fields belong to.")]


def _connection(
    namespace: Annotated[
        str | None, Option("--namespace", "-n", help="The namespace, instead of the context's.", rich_help_panel=_PANEL)
    ] = None,
    kubeconfig: Annotated[
        str | None, Option(metavar="FILE", help="Instead of $KUBECONFIG or ~/.kube/config.", rich_help_panel=_PANEL)
    ] = None,
    context: Annotated[str | None, Option(help="A context of the kubeconfig.", rich_help_panel=_PANEL)] = None,
    server: Annotated[
        str | None, Option("--server", "-s", metavar="URL", help="The server's address.", rich_help_panel=_PANEL)
    ] = None,
    token: Annotated[str | None, Option(help="A bearer token.", rich_help_panel=_PANEL)] = None,
    certificate_authority: Annotated[
        str | None, Option(metavar="FILE", help="Whom to trust.", rich_help_panel=_PANEL)
    ] = None,
    client_certificate: Annotated[str | None, Option(metavar="FILE", rich_help_panel=_PANEL)] = None,
    client_key: Annotated[str | None, Option(metavar="FILE", rich_help_panel=_PANEL)] = None,
    insecure_skip_tls_verify: Annotated[
        bool,
        Option(
            "--insecure-skip-tls-verify", help="Trust anybody. Not for anything that matters.", rich_help_panel=_PANEL
        ),
    ] = False,
    tls_server_name: Annotated[
        str | None, Option(help="The name in the server's certificate.", rich_help_panel=_PANEL)
    ] = None,
    as_user: Annotated[str | None, Option("--as", help="Act as this user.", rich_help_panel=_PANEL)] = None,
    as_group: Annotated[
        list[str] | None, Option(help="Act as in this group; repeatable.", rich_help_panel=_PANEL)
    ] = None,
    request_timeout: Annotated[
        float | None, Option(metavar="SECONDS", min=0.1, help="For each request.", rich_help_panel=_PANEL)
    ] = None,
) -> "Connection":
    from kapi.cli.session import Connection

    return Connection(
        namespace=namespace,
        kubeconfig=kubeconfig,
        context=context,
        server=server,
        token=token,
        certificate_authority=certificate_authority,
        client_certificate=client_certificate,
        client_key=client_key,
        insecure=insecure_skip_tls_verify,
        tls_server_name=tls_server_name,
        as_user=as_user,
        as_groups=tuple(as_group or ()),
        request_timeout=request_timeout,
    )


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the program."""
    for command in (get, watch, create, replace, apply, patch, delete):
        app.command()(_connected(command))


def _connected(command: "Callable[..., Work]") -> "Callable[..., None]":
    """A command with the connection's options added to its own, which runs what it returns and exits."""
    shared = inspect.signature(_connection).parameters
    own = inspect.signature(command).parameters

    def run_and_exit(**values: Any) -> None:
        from kapi.cli.printer import CommandError, complain, error_text
        from kapi.cli.session import FAILED, run

        connection = _connection(**{name: values.pop(name) for name in shared})
        try:
            work = command(**values)
        except CommandError as error:
            complain(error_text([error]))
            sys.exit(FAILED)
        sys.exit(run(connection, work))

    parameters = [*own.values(), *shared.values()]
    run_and_exit.__name__ = command.__name__
    run_and_exit.__doc__ = command.__doc__
    run_and_exit.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_and_exit.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_and_exit


def get(
    arguments: Arguments = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    output: ReadOutput = "",
    watch: Annotated[bool, Option("--watch", "-w", help="Then print changes as they happen.")] = False,
    no_headers: Annotated[bool, Option("--no-headers", help="Rows only.")] = False,
    show_labels: Annotated[bool, Option("--show-labels", help="Labels as the last column.")] = False,
    show_managed_fields: Annotated[bool, Option("--show-managed-fields", help="With -o yaml and json.")] = False,
    ignore_not_found: Annotated[bool, Option("--ignore-not-found", help="Missing objects are no error.")] = False,
    raw: Annotated[str, Option("--raw", metavar="PATH", help="Print what the server answers there.")] = "",
) -> "Work":
    """Print objects, or tables of them."""
    from kapi.cli.get import Query, print_changes, print_objects, print_raw

    if raw:
        return lambda session: print_raw(session, raw)
    query = Query(
        tuple(arguments or ()),
        all_namespaces=all_namespaces,
        label_selector=selector,
        field_selector=field_selector,
        output=output,
        headers=not no_headers,
        show_labels=show_labels,
        managed_fields=show_managed_fields,
        ignore_not_found=ignore_not_found,
    )
    return lambda session: (print_changes if watch else print_objects)(session, query)


def watch(
    arguments: Arguments = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    output: ReadOutput = "",
    no_headers: Annotated[bool, Option("--no-headers", help="Rows only.")] = False,
    show_labels: Annotated[bool, Option("--show-labels", help="Labels as the last column.")] = False,
) -> "Work":
    """Print what is there and every change, each with its type; end it with Ctrl-C."""
    from kapi.cli.get import Query, print_changes

    query = Query(
        tuple(arguments or ()),
        all_namespaces=all_namespaces,
        label_selector=selector,
        field_selector=field_selector,
        output=output,
        headers=not no_headers,
        show_labels=show_labels,
        events=True,
    )
    return lambda session: print_changes(session, query)


def create(
    filename: Files = None,
    recursive: Recursive = False,
    dry_run: DryRun = "none",
    validate: Validate = "strict",
    field_manager: FieldManager = "kubectl-create",
    output: WriteOutput = "",
) -> "Work":
    """Create objects; one that exists already is an error."""
    from kapi.cli.write import WriteOptions, create_objects

    options = WriteOptions.of(field_manager, dry_run=dry_run, validate=validate, output=output)
    manifests = _manifests(filename, recursive=recursive)
    return lambda session: create_objects(session, manifests, options)


def replace(
    filename: Files = None,
    recursive: Recursive = False,
    dry_run: DryRun = "none",
    validate: Validate = "strict",
    field_manager: FieldManager = "kubectl-replace",
    output: WriteOutput = "",
) -> "Work":
    """Put objects in the place of those that exist; a resourceVersion in the manifest must be the current one."""
    from kapi.cli.write import WriteOptions, replace_objects

    options = WriteOptions.of(field_manager, dry_run=dry_run, validate=validate, output=output)
    manifests = _manifests(filename, recursive=recursive)
    return lambda session: replace_objects(session, manifests, options)


def apply(
    filename: Files = None,
    recursive: Recursive = False,
    server_side: Annotated[
        bool, Option("--server-side", help="The server merges, and keeps account of owners.")
    ] = False,
    force_conflicts: Annotated[bool, Option("--force-conflicts", help="Take fields over from other managers.")] = False,
    field_manager: Annotated[
        str | None, Option(metavar="NAME", help="Who the applied fields belong to.", show_default=False)
    ] = None,
    dry_run: DryRun = "none",
    validate: Validate = "strict",
    prune: Annotated[bool, Option("--prune", help="Delete what was applied before and is in no manifest now.")] = False,
    selector: Selector = "",
    prune_all: Annotated[bool, Option("--all", help="With --prune: whatever its labels.")] = False,
    prune_allowlist: Annotated[
        list[str] | None, Option(metavar="GROUP/VERSION/KIND", help="With --prune: only this kind; repeatable.")
    ] = None,
    output: WriteOutput = "",
) -> "Work":
    """Make things as the manifests say: create what is missing, change what differs, keep what others added."""
    from kapi.cli.apply import Apply
    from kapi.cli.write import WriteOptions

    manager = field_manager or ("kubectl" if server_side else "kubectl-client-side-apply")
    work = Apply(
        WriteOptions.of(manager, dry_run=dry_run, validate=validate, output=output),
        server_side=server_side,
        force_conflicts=force_conflicts,
        selector=selector,
        prune=prune,
        prune_all=prune_all,
        prune_kinds=tuple(prune_allowlist or ()),
    )
    manifests = _manifests(filename, recursive=recursive)
    return lambda session: work.run(session, manifests)


def patch(
    arguments: Arguments = None,
    patch: Annotated[str | None, Option("--patch", "-p", metavar="PATCH", help="The patch, as JSON or YAML.")] = None,
    patch_file: Annotated[str | None, Option("--patch-file", metavar="FILE", help="A file with the patch.")] = None,
    patch_type: Annotated[
        str, Option("--type", metavar="json|merge|strategic", help="The type of the patch.")
    ] = "strategic",
    subresource: Annotated[str, Option("--subresource", metavar="NAME", help="status, scale, …")] = "",
    dry_run: DryRun = "none",
    field_manager: FieldManager = "kubectl-patch",
    output: WriteOutput = "",
) -> "Work":
    """Change fields of objects; what the patch does not mention stays."""
    from kapi.cli.printer import CommandError
    from kapi.cli.write import PATCH_TYPES, WriteOptions, patch_objects, read_patch

    if patch_type not in PATCH_TYPES:
        raise CommandError(f'--type must be one of {", ".join(PATCH_TYPES)}, not "{patch_type}"')
    document = read_patch(patch, patch_file)
    options = WriteOptions.of(field_manager, dry_run=dry_run, output=output)
    return lambda session: patch_objects(
        session, arguments or (), document, patch_type, options, subresource=subresource
    )


def delete(
    arguments: Arguments = None,
    filename: Files = None,
    recursive: Recursive = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    everything: Annotated[bool, Option("--all", help="All objects of the type.")] = False,
    all_namespaces: AllNamespaces = False,
    cascade: Annotated[
        str, Option("--cascade", metavar="background|foreground|orphan", help="What becomes of dependents.")
    ] = "background",
    grace_period: Annotated[int, Option("--grace-period", metavar="SECONDS", show_default=False)] = -1,
    force: Annotated[bool, Option("--force", help="Without any grace.")] = False,
    wait: Annotated[bool, Option("--wait/--no-wait", help="Until the objects are gone, finalizers and all.")] = True,
    timeout: Annotated[float, Option("--timeout", metavar="SECONDS", min=0, help="For the wait; 0 is forever.")] = 0,
    ignore_not_found: Annotated[bool, Option("--ignore-not-found", help="Missing objects are no error.")] = False,
    dry_run: DryRun = "none",
    output: Annotated[str, Option("--output", "-o", metavar="FORMAT", help="name.")] = "",
) -> "Work":
    """Delete objects, and wait until they are gone."""
    from kapi.cli.delete import Delete

    work = Delete(
        cascade=cascade,
        grace_period=grace_period,
        force=force,
        wait=wait,
        timeout=timeout,
        ignore_not_found=ignore_not_found,
        label_selector=selector,
        field_selector=field_selector,
        everything=everything,
        all_namespaces=all_namespaces,
        dry_run=dry_run,
        output=output,
    )
    manifests = _manifests(filename, recursive=recursive) if filename else None
    return lambda session: work.run(session, arguments or (), manifests)


def _manifests(filename: list[str] | None, *, recursive: bool) -> "Sequence[Manifest]":
    from kapi.cli import manifests
    from kapi.cli.printer import CommandError

    if not filename:
        raise CommandError("must specify a manifest with -f: a file, a folder, or - for standard input")
    return manifests.read(filename, recursive=recursive)
