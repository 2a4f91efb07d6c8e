"""The commands that talk to a server: get, watch, create, replace, apply, patch and delete.

Only options are declared here. What the commands do is imported when one runs, so that `kapi --help` and `kapi up` do
not pay for a client they do not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.cli.command import Command, Parser, add_flag, at_least
from kapi.cli.connection import connection_of
from kapi.cli.project import CREATE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.cli.get import Query
    from kapi.cli.manifests import Manifest
    from kapi.cli.session import Session
    from kapi.cli.write import WriteOptions

    Work = Callable[[Session], Awaitable[None]]

_TYPES = "TYPE[/NAME] [NAME...] [OPTION...]"
_FILES = "-f FILE... [OPTION...]"


def _connected(prepare: Callable[[Namespace], Work]) -> Callable[[Namespace], int]:
    """Return what runs a command: prepare its work from the options, connect, and do the work."""

    def run(arguments: Namespace) -> int:
        from kapi.cli.printer import CommandError, complain, error_text
        from kapi.cli.session import FAILED
        from kapi.cli.session import run as run_session

        try:
            work = prepare(arguments)
        except CommandError as error:
            complain(error_text([error]))
            return FAILED
        return run_session(connection_of(arguments), work)

    return run


# -- options that several commands share ------------------------------------------------------------------------------


def _add_resources(parser: Parser) -> None:
    parser.add_argument(
        "resources",
        nargs="*",
        metavar="TYPE[/NAME]",
        help="a type and names, or TYPE/NAME; types can be joined by commas",
    )


def _add_files(parser: Parser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="PATH",
        help="a manifest, a folder of manifests, or - for standard input; repeatable",
    )
    add_flag(parser, "--recursive", "-R", help="read the folders below a folder, too")


def _add_selectors(parser: Parser) -> None:
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only objects with these labels")
    parser.add_argument("--field-selector", default="", metavar="FIELDS", help="only objects with these fields")


def _add_all_namespaces(parser: Parser) -> None:
    add_flag(parser, "--all-namespaces", "-A", help="in every namespace")


def _add_output(parser: Parser, formats: str) -> None:
    parser.add_argument("-o", "--output", default="", metavar="FORMAT", help=formats)


def _add_dry_run(parser: Parser) -> None:
    parser.add_argument(
        "--dry-run", default="none", metavar="none|server", help="server: validate the request, store nothing"
    )


def _add_validate(parser: Parser) -> None:
    parser.add_argument(
        "--validate", default="strict", metavar="strict|warn|ignore", help="what to do about unknown fields"
    )


def _add_field_manager(parser: Parser, default: str | None) -> None:
    parser.add_argument(
        "--field-manager", default=default, metavar="NAME", help="the manager that will own the changed fields"
    )


def _manifests(arguments: Namespace) -> Sequence[Manifest]:
    from kapi.cli import manifests
    from kapi.cli.printer import CommandError

    if not arguments.filename:
        raise CommandError("must specify a manifest with -f: a file, a folder, or - for standard input")
    return manifests.read(arguments.filename, recursive=arguments.recursive)


def _write_options(arguments: Namespace) -> WriteOptions:
    from kapi.cli.write import WriteOptions

    return WriteOptions.of(
        arguments.field_manager, dry_run=arguments.dry_run, validate=arguments.validate, output=arguments.output
    )


# -- get and watch ----------------------------------------------------------------------------------------------------


def _add_reads(parser: Parser) -> None:
    _add_resources(parser)
    _add_all_namespaces(parser)
    _add_selectors(parser)
    _add_output(parser, "wide, yaml, json or name")
    add_flag(parser, "--no-headers", help="print rows without a header")
    add_flag(parser, "--show-labels", help="print labels as the last column")


def _query(arguments: Namespace, **more: Any) -> Query:
    from kapi.cli.get import Query

    return Query(
        tuple(arguments.resources),
        all_namespaces=arguments.all_namespaces,
        label_selector=arguments.selector,
        field_selector=arguments.field_selector,
        output=arguments.output,
        headers=not arguments.no_headers,
        show_labels=arguments.show_labels,
        **more,
    )


def _add_get(parser: Parser) -> None:
    _add_reads(parser)
    add_flag(parser, "--watch", "-w", help="print changes as they happen, after the objects")
    add_flag(parser, "--show-managed-fields", help="print metadata.managedFields, with -o yaml and json")
    add_flag(parser, "--ignore-not-found", help="a missing object is no error")
    parser.add_argument("--raw", default="", metavar="PATH", help="print the server's response at a path")


def _get(arguments: Namespace) -> Work:
    from kapi.cli.get import print_changes, print_objects, print_raw

    if arguments.raw:
        return lambda session: print_raw(session, arguments.raw)
    query = _query(arguments, managed_fields=arguments.show_managed_fields, ignore_not_found=arguments.ignore_not_found)
    return lambda session: (print_changes if arguments.watch else print_objects)(session, query)


def _watch(arguments: Namespace) -> Work:
    from kapi.cli.get import print_changes

    query = _query(arguments, events=True)
    return lambda session: print_changes(session, query)


# -- create, replace, apply and patch ---------------------------------------------------------------------------------


def _add_writes(parser: Parser, field_manager: str | None) -> None:
    _add_files(parser)
    _add_dry_run(parser)
    _add_validate(parser)
    _add_field_manager(parser, field_manager)
    _add_output(parser, "name, yaml or json")


def _create(arguments: Namespace) -> Work:
    from kapi.cli.write import create_objects

    options, manifests = _write_options(arguments), _manifests(arguments)
    return lambda session: create_objects(session, manifests, options)


def _replace(arguments: Namespace) -> Work:
    from kapi.cli.write import replace_objects

    options, manifests = _write_options(arguments), _manifests(arguments)
    return lambda session: replace_objects(session, manifests, options)


def _add_apply(parser: Parser) -> None:
    _add_writes(parser, None)
    add_flag(parser, "--server-side", help="the server merges the manifest and records field ownership")
    add_flag(parser, "--force-conflicts", help="take fields over from other field managers")
    add_flag(parser, "--prune", help="delete objects that were applied before and are in no manifest now")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only objects with these labels")
    add_flag(parser, "--all", help="with --prune: whatever the labels", dest="prune_all")
    parser.add_argument(
        "--prune-allowlist",
        action="append",
        metavar="GROUP/VERSION/KIND",
        help="with --prune: only objects of this kind; repeatable",
    )


def _apply(arguments: Namespace) -> Work:
    from kapi.cli.apply import Apply

    arguments.field_manager = arguments.field_manager or (
        "kubectl" if arguments.server_side else "kubectl-client-side-apply"
    )
    work = Apply(
        _write_options(arguments),
        server_side=arguments.server_side,
        force_conflicts=arguments.force_conflicts,
        selector=arguments.selector,
        prune=arguments.prune,
        prune_all=arguments.prune_all,
        prune_kinds=tuple(arguments.prune_allowlist or ()),
    )
    manifests = _manifests(arguments)
    return lambda session: work.run(session, manifests)


def _add_patch(parser: Parser) -> None:
    _add_resources(parser)
    parser.add_argument("-p", "--patch", help="the patch, as JSON or YAML")
    parser.add_argument("--patch-file", metavar="FILE", help="a file with the patch")
    parser.add_argument(
        "--type", default="strategic", dest="patch_type", metavar="json|merge|strategic", help="the type of the patch"
    )
    parser.add_argument("--subresource", default="", metavar="NAME", help="the subresource to patch: status, scale, …")
    _add_dry_run(parser)
    _add_field_manager(parser, "kubectl-patch")
    _add_output(parser, "name, yaml or json")


def _patch(arguments: Namespace) -> Work:
    from kapi.cli.printer import CommandError
    from kapi.cli.write import PATCH_TYPES, WriteOptions, patch_objects, read_patch

    if arguments.patch_type not in PATCH_TYPES:
        raise CommandError(f'--type must be one of {", ".join(PATCH_TYPES)}, not "{arguments.patch_type}"')
    document = read_patch(arguments.patch, arguments.patch_file)
    options = WriteOptions.of(arguments.field_manager, dry_run=arguments.dry_run, output=arguments.output)
    return lambda session: patch_objects(
        session, arguments.resources, document, arguments.patch_type, options, subresource=arguments.subresource
    )


# -- delete -----------------------------------------------------------------------------------------------------------


def _add_delete(parser: Parser) -> None:
    _add_resources(parser)
    _add_files(parser)
    _add_selectors(parser)
    add_flag(parser, "--all", help="all objects of the type", dest="everything")
    _add_all_namespaces(parser)
    parser.add_argument(
        "--cascade",
        default="background",
        metavar="background|foreground|orphan",
        help="how dependents are deleted; orphan: not at all",
    )
    parser.add_argument(
        "--grace-period", type=int, default=-1, metavar="SECONDS", help="instead of the object's own grace period"
    )
    add_flag(parser, "--force", help="delete immediately, with a grace period of 0")
    add_flag(
        parser, "--wait", help="wait until the objects are gone, finalizers included (default: true)", default=True
    )
    parser.add_argument(
        "--timeout", type=at_least(0), default=0.0, metavar="SECONDS", help="the longest wait; 0 is without end"
    )
    add_flag(parser, "--ignore-not-found", help="a missing object is no error")
    _add_dry_run(parser)
    _add_output(parser, "name")


def _delete(arguments: Namespace) -> Work:
    from kapi.cli.delete import Delete

    work = Delete(
        cascade=arguments.cascade,
        grace_period=arguments.grace_period,
        force=arguments.force,
        wait=arguments.wait,
        timeout=arguments.timeout,
        ignore_not_found=arguments.ignore_not_found,
        label_selector=arguments.selector,
        field_selector=arguments.field_selector,
        everything=arguments.everything,
        all_namespaces=arguments.all_namespaces,
        dry_run=arguments.dry_run,
        output=arguments.output,
    )
    manifests = _manifests(arguments) if arguments.filename else None
    return lambda session: work.run(session, arguments.resources, manifests)


COMMANDS = (
    Command("get", "Print objects, as a table or as documents", _add_get, _connected(_get), _TYPES, connects=True),
    Command(
        "watch",
        "Print objects and then every change with its type; end it with Ctrl-C",
        _add_reads,
        _connected(_watch),
        _TYPES,
        connects=True,
    ),
    Command(
        "create",
        "Create objects; one that exists already is an error",
        lambda parser: _add_writes(parser, "kubectl-create"),
        _connected(_create),
        _FILES,
        connects=True,
        subcommands=CREATE,
    ),
    Command(
        "replace",
        "Replace objects; a resourceVersion in the manifest must be the current one",
        lambda parser: _add_writes(parser, "kubectl-replace"),
        _connected(_replace),
        _FILES,
        connects=True,
    ),
    Command(
        "apply",
        "Create or change objects to match manifests; fields that others set are kept",
        _add_apply,
        _connected(_apply),
        _FILES,
        connects=True,
    ),
    Command(
        "patch",
        "Change fields of objects; fields the patch does not mention are kept",
        _add_patch,
        _connected(_patch),
        "TYPE/NAME -p PATCH [OPTION...]",
        connects=True,
    ),
    Command(
        "delete",
        "Delete objects, and wait until they are gone",
        _add_delete,
        _connected(_delete),
        _TYPES,
        connects=True,
    ),
)
