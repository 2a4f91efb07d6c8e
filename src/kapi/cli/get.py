"""`kapi get` and `kapi watch`: print objects, and their changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, NotFound
from kapi.cli.printer import CommandError, ObjectPrinter, TablePrinter, as_list, complain, emit, kind_name
from kapi.client.rest import JSON, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.cli.session import Session, Target
    from kapi.client import APIResource

OUTPUTS: Final = ("wide", "yaml", "json", "name")


@dataclass(frozen=True, slots=True)
class Query:
    """The arguments and options of `get` and `watch`. `events` prints each change with its type."""

    arguments: tuple[str, ...]
    all_namespaces: bool = False
    label_selector: str = ""
    field_selector: str = ""
    output: str = ""
    headers: bool = True
    show_labels: bool = False
    managed_fields: bool = False
    ignore_not_found: bool = False
    events: bool = False

    def __post_init__(self) -> None:
        if self.output and self.output not in OUTPUTS:
            raise CommandError(f'-o "{self.output}": expected one of {", ".join(OUTPUTS)}')

    @property
    def as_table(self) -> bool:
        """Return True if the output is a table."""
        return self.output in ("", "wide")

    def table(self, resource: APIResource, *, with_kind: bool = False) -> TablePrinter:
        """A printer for the tables of a resource."""
        return TablePrinter(
            wide=self.output == "wide",
            headers=self.headers,
            with_namespace=self.all_namespaces and resource.namespaced,
            with_labels=self.show_labels,
            kind=kind_name(resource) if with_kind else "",
        )


async def print_raw(session: Session, path: str) -> None:
    """Print the server's response at a path."""
    where, _, parameters = path.partition("?")
    pairs = dict(pair.partition("=")[::2] for pair in parameters.split("&") if pair)
    answer = await session.rest.send("GET", where, query=pairs, accept="*/*")
    emit(answer.body.decode("utf-8", "replace"))


async def print_objects(session: Session, query: Query) -> None:
    """Print objects or lists of them."""
    targets = await _targets(session, query)
    if query.as_table:
        await _print_tables(session, query, targets)
    else:
        await _print_documents(session, query, targets)


async def print_changes(session: Session, query: Query) -> None:
    """Print the objects and then every change, until the server or the user ends it."""
    targets = await _targets(session, query)
    if len(targets) > 1:
        raise CommandError("one resource, or one object of it, can be watched at a time")
    target = targets[0]
    client = session.client(target.resource, _namespace(session, query))
    fields = ",".join(filter(None, (f"metadata.name={target.name}" if target.name else "", query.field_selector)))
    accept = TABLE if query.as_table else JSON
    show = _printer_of_changes(query, target.resource)
    version, found = "", False
    async for page in client.pages(label_selector=query.label_selector, field_selector=fields, accept=accept):
        version = page["metadata"]["resourceVersion"]
        for part in [page] if query.as_table else _items(page, target.resource):
            show("ADDED", part)
        found = found or bool(page.get("rows") or page.get("items"))
    if target.name and not found:
        raise NotFound.of(target.resource.gvr.group_resource, target.name)
    async with client.watch(
        resource_version=version, label_selector=query.label_selector, field_selector=fields, accept=accept
    ) as events:
        async for event in events:
            show(event.type, event.object)


def _printer_of_changes(query: Query, resource: APIResource) -> Callable[[str, Object], None]:
    """Return the function that prints a change: as rows of a table, or as a document."""
    if query.as_table:
        table = query.table(resource)

        def show_rows(event: str, part: Object) -> None:
            table.add(part, event if query.events else "")
            emit(table.flush())

        return show_rows
    printer = ObjectPrinter(query.output, managed_fields=query.managed_fields)

    def show_object(event: str, part: Object) -> None:
        wrapped = query.events and query.output != "name"
        emit(printer.text({"type": event, "object": part} if wrapped else part))

    return show_object


async def _targets(session: Session, query: Query) -> list[Target]:
    targets = await session.targets(query.arguments)
    named = [target for target in targets if target.name]
    if named and (query.label_selector or query.field_selector):
        raise CommandError("name cannot be provided when a selector is specified")
    if query.all_namespaces and any(target.resource.namespaced for target in named):
        raise CommandError("a resource cannot be retrieved by name across all namespaces")
    return targets


def _namespace(session: Session, query: Query) -> str:
    return "" if query.all_namespaces else session.namespace


async def _answers(session: Session, query: Query, target: Target, accept: str) -> list[Object]:
    """Return the object, or the pages of the list; errors are added to the failures of the session."""
    client = session.client(target.resource, _namespace(session, query))
    try:
        if target.name:
            return [await session.get(target.resource, target.name, accept=accept)]
        pages = client.pages(label_selector=query.label_selector, field_selector=query.field_selector, accept=accept)
        return [page async for page in pages]
    except NotFound as error:
        if not query.ignore_not_found:
            session.failures.append(error)
    except ApiError as error:
        session.failures.append(error)
    return []


async def _print_tables(session: Session, query: Query, targets: list[Target]) -> None:
    with_kind = len({target.resource for target in targets}) > 1
    printed = False
    for resource in dict.fromkeys(target.resource for target in targets):
        printer = query.table(resource, with_kind=with_kind)
        for target in targets:
            if target.resource == resource:
                for table in await _answers(session, query, target, TABLE):
                    printer.add(table)
        text = printer.flush()
        if text:
            emit(("\n" if printed and query.headers else "") + text)
            printed = True
    if not printed and not session.failures and not query.ignore_not_found:
        in_one = not query.all_namespaces and all(target.resource.namespaced for target in targets)
        complain(f"No resources found in {session.namespace} namespace." if in_one else "No resources found")


async def _print_documents(session: Session, query: Query, targets: list[Target]) -> None:
    found: list[Object] = []
    for target in targets:
        for answer in await _answers(session, query, target, JSON):
            found += _items(answer, target.resource) if not target.name else [answer]
    printer = ObjectPrinter(query.output, managed_fields=query.managed_fields)
    if len(targets) == 1 and targets[0].name:
        emit("".join(map(printer.text, found)))
    elif not (query.ignore_not_found and not found):
        emit(printer.text(as_list(found)))


def _items(page: Object, resource: APIResource) -> list[Object]:
    """The objects of a list, each saying what it is; in a list of one kind the server leaves that out."""
    head = {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
    return [{**head, **item} for item in page.get("items") or []]
