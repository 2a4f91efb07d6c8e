"""Resources of an API server of one's own, over dictionaries, and a running server with a client of it."""

import asyncio
import contextlib
from typing import Annotated

import msgspec

from kapi.api.errors import Expired, Forbidden, NotFound
from kapi.api.meta import GroupResource
from kapi.apiserver import ApiServer, Column, CustomResource, Event, Model, Page, Resource, resource
from kapi.client import ClientConfig, RESTClient

BOOKS = "/apis/library.example.com/v1/namespaces/default/books"
EVERY_BOOK = "/apis/library.example.com/v1/books"
MERGE = "application/merge-patch+json"


class BookSpec(Model):
    title: Annotated[str, msgspec.Meta(min_length=1)]
    copies: int = 1
    shelf: str = ""


class BookStatus(Model):
    lent: int = 0


@resource(
    "library.example.com/v1",
    short_names=["bk"],
    columns=[Column("Title", ".spec.title"), Column("Copies", ".spec.copies", "integer")],
    selectable_fields=[".spec.shelf"],
)
class Book(CustomResource):
    """A book of a library."""

    spec: BookSpec
    status: BookStatus | None = None


def book(name, *, namespace="default", labels=None, **spec):
    """A book as clients send it."""
    metadata = {"name": name, "namespace": namespace} | ({"labels": labels} if labels else {})
    return {
        "apiVersion": "library.example.com/v1",
        "kind": "Book",
        "metadata": metadata,
        "spec": {"title": name.title(), **spec},
    }


class Readable(Resource[Book]):
    """Books that can be read. `calls` has what was called, in order."""

    def __init__(self, *books):
        super().__init__(Book)
        self.rows = {}
        self.calls = []
        for one in books:
            self.keep(msgspec.convert(one, Book))

    def keep(self, obj):
        """Store a book as a program does that does not know of the server."""
        self.rows[obj.metadata.namespace, obj.metadata.name] = msgspec.json.encode(obj)
        return obj

    async def get(self, request, name):
        row = self.rows.get((request.namespace, name))
        return None if row is None else msgspec.json.decode(row, type=Book)

    async def list(self, request, options):
        self.calls.append(("list", request.namespace, options))
        found = (row for (where, _), row in self.rows.items() if request.namespace in ("", where))
        return [msgspec.json.decode(row, type=Book) for row in found]


class Writable(Readable):
    """Books that can be written as well."""

    async def create(self, request, obj):
        self.calls.append(("create", request.user.name, obj.spec.title))
        if obj.spec.title == "Forbidden":
            raise Forbidden.of(GroupResource("library.example.com", "books"), obj.metadata.name, "not in this library")
        if obj.spec.title == "Broken":
            raise RuntimeError("the password of the database is swordfish")
        if obj.spec.title == "Rare":
            request.warn("this book is rare")
        return self.keep(obj)

    async def update(self, request, obj, old):
        self.calls.append(("update", request.subresource, obj.spec.title, old.spec.title))
        return self.keep(obj)

    async def delete(self, request, obj):
        self.calls.append(("delete", obj.metadata.name))
        if self.rows.pop((obj.metadata.namespace, obj.metadata.name), None) is None:
            raise NotFound.of(GroupResource("library.example.com", "books"), obj.metadata.name)


class Polled(Writable):
    """Books of a backing that does not report changes."""

    poll_seconds = 0.01


class Journaled(Readable):
    """Books whose changes are in a journal: `record` adds one, `watch` reads them."""

    def __init__(self, *books):
        self.journal = []
        self.oldest = 10
        self.changed = asyncio.Event()
        super().__init__(*books)

    @property
    def version(self):
        return self.oldest + len(self.journal)

    def keep(self, obj):
        obj.metadata.resource_version = str(self.version)
        return super().keep(obj)

    def record(self, kind, one, old=None):
        """Add a change to the journal."""
        self.journal.append((kind, one, old))
        changed = msgspec.convert(one, Book)
        changed.metadata.resource_version = str(self.version)
        if kind == "DELETED":
            del self.rows[changed.metadata.namespace, changed.metadata.name]
        else:
            super().keep(changed)
        self.changed.set()

    async def list(self, request, options):
        return Page(await super().list(request, options), resource_version=str(self.version))

    async def watch(self, request, options):
        position = int(options.resource_version) - self.oldest
        if position < 0:
            raise Expired(f"too old resource version: {options.resource_version} ({self.oldest})")
        while True:
            while position < len(self.journal):
                kind, one, old = self.journal[position]
                position += 1
                if kind == "BROKEN":
                    raise RuntimeError("the password of the journal is swordfish")
                obj = msgspec.convert(one, Book)
                obj.metadata.resource_version = str(self.oldest + position)
                yield Event(kind, obj, None if old is None else msgspec.convert(old, Book))
            self.changed.clear()
            await self.changed.wait()


@contextlib.asynccontextmanager
async def serving(*resources, **options):
    """Run a server without a cluster; gives a client of it, whose `warnings` are those of all answers."""
    async with ApiServer(*resources, port=0, **options) as server:
        warnings = []
        async with RESTClient(ClientConfig(server.url), on_warning=warnings.append) as client:
            client.warnings = warnings
            yield client


@contextlib.asynccontextmanager
async def watching(client, path, **query):
    """Watch a collection; gives a function that returns the next event as (type, name or reason, object)."""
    async with client.stream(path, query={"watch": "true", **query}) as lines:

        async def following():
            event = msgspec.json.decode(await anext(lines))
            obj = event["object"]
            return event["type"], obj.get("reason") or obj["metadata"].get("name"), obj

        yield following
