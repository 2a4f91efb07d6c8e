"""Watches of resources that report their changes, and of those that are polled."""

import asyncio

import msgspec
import pytest

from apiserver_books import BOOKS, EVERY_BOOK, MERGE, Book, Journaled, Polled, book, serving, watching
from kapi.api.errors import BadRequest
from kapi.informer import SharedInformerFactory

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def run(main):
    async def bounded():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


# -- a watch of one's own ---------------------------------------------------------------------------------------------


def test_a_watch_begins_with_what_there_is_and_goes_on_with_events():
    async def main():
        journal = Journaled(book("alice"))
        async with serving(journal) as client, watching(client, BOOKS, allowWatchBookmarks="true") as following:
            assert (await following())[:2] == ("ADDED", "alice")
            kind, _, bookmark = await following()
            assert (kind, bookmark["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
            assert bookmark["metadata"]["resourceVersion"] == "10"
            journal.record("ADDED", book("bobby"))
            journal.record("MODIFIED", book("alice", title="Alicia"))
            journal.record("ADDED", book("carol", namespace="other"))
            journal.record("DELETED", book("bobby"))
            events = [await following() for _ in range(3)]
            assert [one[:2] for one in events] == [("ADDED", "bobby"), ("MODIFIED", "alice"), ("DELETED", "bobby")]
            assert [one[2]["metadata"]["resourceVersion"] for one in events] == ["11", "12", "14"]

    run(main)


def test_a_watch_from_a_version_has_what_came_after():
    async def main():
        journal = Journaled()
        async with serving(journal) as client:
            for name in ("alice", "bobby", "carol"):
                journal.record("ADDED", book(name))
            async with watching(client, EVERY_BOOK, resourceVersion="11") as following:
                assert [(await following())[1] for _ in range(2)] == ["bobby", "carol"]
            async with watching(client, EVERY_BOOK, resourceVersion="5") as following:
                assert (await following())[:2] == ("ERROR", "Expired")

    run(main)


def test_an_object_that_leaves_a_selection_is_deleted_for_its_watch():
    async def main():
        journal = Journaled(book("alice", shelf="a"))
        async with (
            serving(journal) as client,
            watching(client, BOOKS, fieldSelector="spec.shelf=a") as initial,
            watching(client, BOOKS, fieldSelector="spec.shelf=a", resourceVersion="10") as resumed,
        ):
            assert (await initial())[:2] == ("ADDED", "alice")
            journal.record("MODIFIED", book("alice", shelf="b"))
            journal.record("MODIFIED", book("alice", shelf="b", copies=2))
            journal.record("MODIFIED", book("bobby", shelf="b"), old=book("bobby", shelf="c"))
            journal.record("MODIFIED", book("alice", shelf="a"))
            for following in (initial, resumed):
                assert [(await following())[:2] for _ in range(2)] == [("DELETED", "alice"), ("ADDED", "alice")]

    run(main)


def test_an_error_of_a_watch_ends_it_and_tells_nothing_but_where_to_look():
    async def main():
        journal = Journaled()
        async with serving(journal) as client, watching(client, BOOKS, resourceVersion="10") as following:
            journal.record("ADDED", book("alice"))
            await following()
            journal.journal.append(("BROKEN", None, None))
            journal.changed.set()
            kind, reason, status = await following()
            assert (kind, reason, status["code"]) == ("ERROR", "InternalError", 500)
            assert "swordfish" not in status["message"]
            with pytest.raises(StopAsyncIteration):
                await following()

    run(main)


def test_a_watch_ends_when_its_time_is_up():
    async def main():
        journal = Journaled(book("alice"))
        async with serving(journal) as client, watching(client, BOOKS, timeoutSeconds="1") as following:
            await following()
            with pytest.raises(StopAsyncIteration):
                await following()

    run(main)


# -- polling ----------------------------------------------------------------------------------------------------------


def test_changes_of_other_programs_are_seen_by_watches():
    async def main():
        polled = Polled(book("alice"))
        async with serving(polled) as client, watching(client, BOOKS) as following:
            kind, name, alice = await following()
            assert (kind, name) == ("ADDED", "alice")
            polled.rows["default", "alice"] = polled.rows["default", "alice"].replace(b"Alice", b"Alicia")
            kind, name, after = await following()
            assert (kind, name, after["spec"]["title"]) == ("MODIFIED", "alice", "Alicia")
            assert int(after["metadata"]["resourceVersion"]) > int(alice["metadata"]["resourceVersion"])
            del polled.rows["default", "alice"]
            assert (await following())[:2] == ("DELETED", "alice")

    run(main)


def test_writes_through_the_server_are_events_with_their_versions():
    async def main():
        async with serving(Polled()) as client, watching(client, BOOKS) as following:
            created = await client.request("POST", BOOKS, body=book("alice"))
            assert await following() == ("ADDED", "alice", created)
            patched = await client.request(
                "PATCH", f"{BOOKS}/alice", body={"spec": {"copies": 2}}, content_type=MERGE, query={"fieldManager": "m"}
            )
            assert await following() == ("MODIFIED", "alice", patched)
            await client.request("DELETE", f"{BOOKS}/alice")
            assert (await following())[:2] == ("DELETED", "alice")

    run(main)


def test_reads_of_a_polled_resource_see_what_its_backing_has_now():
    async def main():
        polled = Polled(book("alice"), book("bobby"))
        async with serving(polled) as client:
            assert (await client.request("GET", f"{BOOKS}/alice"))["spec"]["title"] == "Alice"
            polled.rows["default", "alice"] = polled.rows["default", "alice"].replace(b"Alice", b"Alicia")
            del polled.rows["default", "bobby"]
            listed = await client.request("GET", BOOKS)
            assert [one["spec"]["title"] for one in listed["items"]] == ["Alicia"]
            polled.rows["default", "alice"] = polled.rows["default", "alice"].replace(b"Alicia", b"Alison")
            assert (await client.request("GET", f"{BOOKS}/alice"))["spec"]["title"] == "Alison"

    run(main)


def test_field_owners_of_a_polled_resource_are_kept_and_applied():
    async def main():
        async with serving(Polled()) as client:

            async def apply(manager, **spec):
                body = book("alice", **spec)
                del body["spec"]["title"]
                return await client.request(
                    "PATCH",
                    f"{BOOKS}/alice",
                    body={**body, "spec": {"title": "Alice", **spec}},
                    content_type="application/apply-patch+yaml",
                    query={"fieldManager": manager},
                )

            await apply("one", copies=3)
            applied = await apply("two", shelf="a")
            assert applied["spec"] == {"title": "Alice", "copies": 3, "shelf": "a"}
            assert [one["manager"] for one in applied["metadata"]["managedFields"]] == ["one", "two"]

    run(main)


class Recorder:
    """Puts what an informer reports into a queue."""

    def __init__(self, queue):
        self._queue = queue

    def on_add(self, obj, *, initial):
        self._queue.put_nowait(("add", obj.metadata.name, obj.spec.copies))

    def on_update(self, old, new):
        self._queue.put_nowait(("update", new.metadata.name, new.spec.copies))

    def on_delete(self, obj, *, stale):
        self._queue.put_nowait(("delete", obj.metadata.name, obj.spec.copies))


@pytest.mark.parametrize("kind", [Polled, Journaled])
def test_an_informer_follows_a_resource(kind):
    async def main():
        backing = kind(book("alice"))

        def change(event, one):
            """Change a book as another program does."""
            if kind is Journaled:
                backing.record(event, one)
            elif event == "DELETED":
                del backing.rows["default", one["metadata"]["name"]]
            else:
                backing.keep(msgspec.convert(one, Book))

        async with serving(backing) as client, SharedInformerFactory(client) as informers:
            informer = informers.informer(Book)
            seen = asyncio.Queue()
            informer.add_handler(Recorder(seen))
            assert await seen.get() == ("add", "alice", 1)
            change("ADDED", book("bobby"))
            assert await seen.get() == ("add", "bobby", 1)
            change("MODIFIED", book("alice", copies=4))
            assert await seen.get() == ("update", "alice", 4)
            change("DELETED", book("bobby"))
            assert await seen.get() == ("delete", "bobby", 1)

    run(main)


def test_a_version_of_an_earlier_process_is_expired():
    async def main():
        polled = Polled(book("alice"))
        async with serving(polled) as client:
            version = (await client.request("GET", BOOKS))["metadata"]["resourceVersion"]
        async with serving(polled) as client:
            assert int((await client.request("GET", BOOKS))["metadata"]["resourceVersion"]) > int(version)
            async with watching(client, BOOKS, resourceVersion=version) as following:
                assert (await following())[:2] == ("ERROR", "Expired")

    run(main)


class Gated(Polled):
    """A backing whose next list is held back after it was made."""

    def __init__(self):
        super().__init__(book("alice"))
        self.gate = None
        self.listed = asyncio.Event()

    async def list(self, request, options):
        found = await super().list(request, options)
        if self.gate is not None:
            gate, self.gate = self.gate, None
            self.listed.set()
            await gate.wait()
        return found


def test_a_list_that_is_older_than_a_write_does_not_undo_it():
    async def main():
        gated = Gated()
        async with serving(gated) as client:
            await client.request("GET", BOOKS)
            gate = gated.gate = asyncio.Event()
            listing = asyncio.ensure_future(client.request("GET", BOOKS))
            await gated.listed.wait()
            await client.request("POST", BOOKS, body=book("bobby"))
            await client.request("DELETE", f"{BOOKS}/alice")
            gate.set()
            assert [one["metadata"]["name"] for one in (await listing)["items"]] == ["bobby"]

    run(main)


class SlowToAnswer(Polled):
    """A backing whose next get is held back after it was made."""

    poll_seconds = 3600.0

    def __init__(self):
        super().__init__(book("alice"))
        self.gate = None
        self.read = asyncio.Event()

    async def get(self, request, name):
        found = await super().get(request, name)
        if self.gate is not None:
            gate, self.gate = self.gate, None
            self.read.set()
            await gate.wait()
        return found


def test_a_read_that_is_older_than_a_write_does_not_undo_it():
    async def main():
        slow = SlowToAnswer()
        async with serving(slow) as client, watching(client, BOOKS) as following:
            assert (await following())[:2] == ("ADDED", "alice")
            gate = slow.gate = asyncio.Event()
            reading = asyncio.ensure_future(client.request("GET", f"{BOOKS}/alice"))
            await slow.read.wait()
            for copies in (5, 6):
                await client.request("PATCH", f"{BOOKS}/alice", body={"spec": {"copies": copies}}, content_type=MERGE)
                if copies == 5:
                    gate.set()
                    assert (await reading)["spec"]["copies"] == 5
            assert [(await following())[2]["spec"]["copies"] for _ in range(2)] == [5, 6]

    run(main)


def test_a_watch_of_one_name_refuses_a_selector_of_another():
    async def main():
        journal = Journaled()
        async with serving(journal) as client:
            with pytest.raises(BadRequest, match="doesn't match requested name"):
                await client.request(
                    "GET",
                    "/apis/library.example.com/v1/watch/namespaces/default/books/alice",
                    query={"fieldSelector": "metadata.name=bobby"},
                )

    run(main)
