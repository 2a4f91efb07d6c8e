"""Resources that are read and written by functions of their own."""

import asyncio

import aiohttp
import pytest
from structlog.testing import capture_logs

from apiserver_books import BOOKS, EVERY_BOOK, MERGE, Book, Readable, Writable, book, serving
from kapi.api.crd import definition
from kapi.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
)
from kapi.apiserver import ApiServer, Resource, Stored

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def served(resource):
    """Run a test function with a client of a server that has one resource."""

    def decorate(function):
        def test():
            backing = resource()

            async def main():
                async with asyncio.timeout(60), serving(backing) as client:
                    await function(client, backing)

            asyncio.run(main())

        test.__name__ = function.__name__
        return test

    return decorate


def _names(listed):
    return [one["metadata"]["name"] for one in listed["items"]]


def two_books():
    return Writable(book("alice", labels={"kind": "tale"}, shelf="a"), book("bobby", namespace="other", shelf="b"))


# -- discovery --------------------------------------------------------------------------------------------------------


@served(Readable)
async def test_discovery_lists_the_verbs_that_have_functions(client, backing):
    (entry,) = (await client.request("GET", "/apis/library.example.com/v1"))["resources"]
    assert (entry["name"], entry["verbs"], entry["shortNames"]) == ("books", ["get", "list"], ["bk"])
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    (group,) = (await client.request("GET", "/apis", accept=aggregated))["items"]
    assert group["versions"][0]["resources"][0]["verbs"] == ["get", "list"]
    with pytest.raises(MethodNotAllowed):
        await client.request("POST", BOOKS, body=book("alice"))


@served(Writable)
async def test_patch_and_deletecollection_are_made_of_other_functions(client, backing):
    entry, status = (await client.request("GET", "/apis/library.example.com/v1"))["resources"]
    assert entry["verbs"] == ["create", "delete", "deletecollection", "get", "list", "patch", "update"]
    assert (status["name"], status["verbs"]) == ("books/status", ["get", "patch", "update"])


@served(Readable)
async def test_openapi_describes_the_class(client, backing):
    index = await client.request("GET", "/openapi/v3")
    document = await client.request("GET", "/openapi/v3/apis/library.example.com/v1")
    assert list(index["paths"]) == ["apis/library.example.com/v1"]
    schema = document["components"]["schemas"]["com.example.library.v1.Book"]
    assert schema["properties"]["spec"]["properties"]["copies"]["default"] == 1
    assert set((await client.request("GET", "/openapi/v2"))["definitions"]) >= {"com.example.library.v1.Book"}


@served(Readable)
async def test_there_is_no_core_group(client, backing):
    with pytest.raises(NotFound):
        await client.request("GET", "/api")
    assert (await client.request("GET", "/version"))["major"] == "1"


# -- reading ----------------------------------------------------------------------------------------------------------


@served(two_books)
async def test_an_object_has_kind_uid_defaults_and_a_version_by_its_content(client, backing):
    alice = await client.request("GET", f"{BOOKS}/alice")
    assert (alice["kind"], alice["apiVersion"]) == ("Book", "library.example.com/v1")
    assert alice["spec"] == {"title": "Alice", "copies": 1, "shelf": "a"}
    assert alice == await client.request("GET", f"{BOOKS}/alice")
    changed = backing.rows["default", "alice"].replace(b"Alice", b"Alicia")
    backing.rows["default", "alice"] = changed
    after = await client.request("GET", f"{BOOKS}/alice")
    assert after["metadata"]["uid"] == alice["metadata"]["uid"]
    assert after["metadata"]["resourceVersion"] != alice["metadata"]["resourceVersion"]


@served(two_books)
async def test_none_is_not_found(client, backing):
    with pytest.raises(NotFound, match='"carol" not found'):
        await client.request("GET", f"{BOOKS}/carol")


@served(two_books)
async def test_lists_are_of_a_namespace_or_of_all(client, backing):
    assert _names(await client.request("GET", BOOKS)) == ["alice"]
    assert _names(await client.request("GET", EVERY_BOOK)) == ["alice", "bobby"]


@served(two_books)
async def test_selectors_are_applied_to_what_a_function_lists(client, backing):
    assert _names(await client.request("GET", EVERY_BOOK, query={"labelSelector": "kind=tale"})) == ["alice"]
    assert _names(await client.request("GET", EVERY_BOOK, query={"fieldSelector": "spec.shelf=b"})) == ["bobby"]
    assert _names(await client.request("GET", EVERY_BOOK, query={"fieldSelector": "metadata.name=bobby"})) == ["bobby"]
    with pytest.raises(BadRequest, match="field label not supported"):
        await client.request("GET", EVERY_BOOK, query={"fieldSelector": "spec.title=x"})


@served(lambda: Readable(*(book(f"b{number}") for number in range(5))))
async def test_a_list_is_read_in_pages(client, backing):
    first = await client.request("GET", BOOKS, query={"limit": 2})
    assert (_names(first), first["metadata"]["remainingItemCount"]) == (["b0", "b1"], 3)
    second = await client.request("GET", BOOKS, query={"limit": 2, "continue": first["metadata"]["continue"]})
    third = await client.request("GET", BOOKS, query={"limit": 2, "continue": second["metadata"]["continue"]})
    assert (_names(second), _names(third)) == (["b2", "b3"], ["b4"])
    assert not third["metadata"]["continue"]


@served(two_books)
async def test_tables_have_the_columns_of_the_class(client, backing):
    table = await client.request("GET", BOOKS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Title", "Copies"]
    assert table["rows"][0]["cells"] == ["alice", "Alice", 1]


@served(lambda: Readable(book("alice")))
async def test_an_object_that_is_none_is_an_error_of_the_server(client, backing):
    backing.rows["default", "alice"] = backing.rows["default", "alice"].replace(b'"namespace":"default"', b'"uid":"1"')
    with pytest.raises(InternalError, match="TypeError, see the log for"):
        await client.request("GET", f"{BOOKS}/alice")


# -- writing ----------------------------------------------------------------------------------------------------------


@served(Writable)
async def test_a_create_is_decoded_defaulted_and_validated_before_the_function(client, backing):
    created = await client.request("POST", BOOKS, body=book("alice", bogus=1))
    assert created["spec"] == {"title": "Alice", "copies": 1}
    assert created["metadata"]["creationTimestamp"]
    assert client.warnings == ['unknown field "spec.bogus"']
    with pytest.raises(Invalid, match="should be at least 1 chars long"):
        await client.request("POST", BOOKS, body=book("empty", title=""))
    with pytest.raises(BadRequest, match="strict decoding error"):
        await client.request("POST", BOOKS, body=book("strict", bogus=1), query={"fieldValidation": "Strict"})
    assert backing.calls == [("create", "system:anonymous", "Alice")]


@served(two_books)
async def test_a_name_that_is_taken_already_exists(client, backing):
    with pytest.raises(AlreadyExists):
        await client.request("POST", BOOKS, body=book("alice"))
    assert not backing.calls


@served(Writable)
async def test_a_generated_name_is_made_before_the_function(client, backing):
    body = book("x")
    body["metadata"] = {"generateName": "book-"}
    created = await client.request("POST", BOOKS, body=body)
    assert created["metadata"]["name"].startswith("book-")


@served(two_books)
async def test_a_dry_run_calls_no_function_that_writes(client, backing):
    dry = {"dryRun": "All"}
    await client.request("POST", BOOKS, body=book("carol"), query=dry)
    patch = {"spec": {"title": "Alicia"}}
    patched = await client.request("PATCH", f"{BOOKS}/alice", body=patch, content_type=MERGE, query=dry)
    await client.request("DELETE", f"{BOOKS}/alice", query=dry)
    assert patched["spec"]["title"] == "Alicia"
    assert not backing.calls


@served(two_books)
async def test_an_update_with_an_old_version_is_a_conflict(client, backing):
    alice = await client.request("GET", f"{BOOKS}/alice")
    alice["spec"]["title"] = "Alicia"
    await client.request("PUT", f"{BOOKS}/alice", body=alice)
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.request("PUT", f"{BOOKS}/alice", body=alice)
    assert backing.calls == [("update", "", "Alicia", "Alice")]


@served(two_books)
async def test_an_update_that_changes_nothing_calls_no_function(client, backing):
    alice = await client.request("GET", f"{BOOKS}/alice")
    assert await client.request("PUT", f"{BOOKS}/alice", body=alice) == alice
    assert not backing.calls


@served(two_books)
async def test_patches_are_applied_to_what_get_returns(client, backing):
    json_patch = [{"op": "replace", "path": "/spec/copies", "value": 3}]
    media = "application/json-patch+json"
    assert (await client.request("PATCH", f"{BOOKS}/alice", body=json_patch, content_type=media))["spec"]["copies"] == 3
    merge = {"spec": {"title": "Alicia"}}
    assert (await client.request("PATCH", f"{BOOKS}/alice", body=merge, content_type=MERGE))["spec"] == {
        "title": "Alicia",
        "copies": 3,
        "shelf": "a",
    }


@served(two_books)
async def test_server_side_apply_is_refused_where_field_owners_have_no_place(client, backing):
    with pytest.raises(UnsupportedMediaType, match="managedFields"):
        await client.request(
            "PATCH",
            f"{BOOKS}/alice",
            body=book("alice"),
            content_type="application/apply-patch+yaml",
            query={"fieldManager": "test"},
        )


class Slow(Writable):
    """Updates wait until two of them have been asked for, or one has been asked for and the other has to wait."""

    def __init__(self):
        super().__init__(book("alice"))
        self.reads = 0
        self.both_read = asyncio.Event()

    async def get(self, request, name):
        found = await super().get(request, name)
        self.reads += 1
        if self.reads == 2:
            self.both_read.set()
        # Both requests have read the object before one of them writes it.
        await self.both_read.wait()
        return found


@served(Slow)
async def test_two_patches_at_the_same_time_are_both_applied(client, backing):
    await asyncio.gather(
        client.request("PATCH", f"{BOOKS}/alice", body={"spec": {"copies": 7}}, content_type=MERGE),
        client.request("PATCH", f"{BOOKS}/alice", body={"spec": {"shelf": "z"}}, content_type=MERGE),
    )
    spec = (await client.request("GET", f"{BOOKS}/alice"))["spec"]
    assert spec == {"title": "Alice", "copies": 7, "shelf": "z"}


class Restless(Writable):
    """An object that is another each time it is read."""

    async def get(self, request, name):
        found = await super().get(request, name)
        if found is not None:
            self.calls.append("get")
            found.spec.copies = len(self.calls)
        return found


@served(lambda: Restless(book("alice")))
async def test_a_write_of_an_object_that_never_stays_the_same_is_given_up(client, backing):
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.request("PATCH", f"{BOOKS}/alice", body={"spec": {"shelf": "z"}}, content_type=MERGE)
    assert 10 < len(backing.calls) < 30


@served(two_books)
async def test_status_is_written_by_its_own_endpoint_alone(client, backing):
    body = {"spec": {"title": "ignored"}, "status": {"lent": 1}}
    await client.request("PATCH", f"{BOOKS}/alice", body={"status": {"lent": 9}}, content_type=MERGE)
    written = await client.request("PATCH", f"{BOOKS}/alice/status", body=body, content_type=MERGE)
    assert (written["spec"]["title"], written["status"]) == ("Alice", {"lent": 1})
    assert backing.calls == [("update", "status", "Alice", "Alice")]


@served(two_books)
async def test_a_delete_observes_its_preconditions(client, backing):
    with pytest.raises(Conflict, match="UID in the precondition"):
        await client.request("DELETE", f"{BOOKS}/alice", body={"preconditions": {"uid": "other"}})
    uid = (await client.request("GET", f"{BOOKS}/alice"))["metadata"]["uid"]
    await client.request("DELETE", f"{BOOKS}/alice", body={"preconditions": {"uid": uid}})
    with pytest.raises(NotFound):
        await client.request("DELETE", f"{BOOKS}/alice")
    assert backing.calls == [("delete", "alice")]


@served(two_books)
async def test_a_foreground_deletion_is_not_left_waiting_for_a_finalizer(client, backing):
    await client.request("DELETE", f"{BOOKS}/alice", body={"propagationPolicy": "Foreground"})
    assert ("default", "alice") not in backing.rows


@served(lambda: Writable(*(book(f"b{number}", labels={"odd": str(number % 2)}) for number in range(6))))
async def test_a_collection_is_deleted_by_its_selector(client, backing):
    deleted = await client.request("DELETE", BOOKS, query={"labelSelector": "odd=1"})
    assert _names(deleted) == ["b1", "b3", "b5"]
    assert [name for _, name in backing.rows] == ["b0", "b2", "b4"]


# -- errors -----------------------------------------------------------------------------------------------------------


@served(Writable)
async def test_an_error_of_the_api_is_the_status_that_a_client_gets(client, backing):
    with pytest.raises(Forbidden, match="not in this library"):
        await client.request("POST", BOOKS, body=book("forbidden"))


@served(Writable)
async def test_another_error_tells_nothing_but_where_to_look(client, backing):
    with capture_logs() as logs, pytest.raises(ApiError) as caught:
        await client.request("POST", BOOKS, body=book("broken"))
    assert caught.value.code == 500
    assert "swordfish" not in caught.value.message
    assert any(one["event"] == "request failed" for one in logs)


@served(Writable)
async def test_a_warning_of_a_function_is_a_header(client, backing):
    await client.request("POST", BOOKS, body=book("rare"))
    assert client.warnings == ["this book is rare"]


# -- mistakes of authors ----------------------------------------------------------------------------------------------


def test_functions_that_need_others_are_refused_without_them():
    class Nothing(Resource[Book]):
        pass

    class Blind(Resource[Book]):
        async def update(self, request, obj, old):
            return obj

    async def start(*resources):
        async with ApiServer(*resources, port=0):
            pass

    with pytest.raises(TypeError, match="Nothing has none of get, list"):
        asyncio.run(start(Nothing(Book)))
    with pytest.raises(TypeError, match="Blind has update or delete and needs get"):
        asyncio.run(start(Blind(Book)))
    with pytest.raises(ValueError, match="is given twice"):
        asyncio.run(start(Readable(), Writable()))
    with pytest.raises(TypeError, match="expected classes decorated with @resource"):
        asyncio.run(start(Stored(int)))


@served(two_books)
async def test_a_web_page_cannot_read_through_a_name_of_its_own(client, backing):
    url = client.config.server + BOOKS
    rebound = {"Host": "evil.example.com"}
    async with aiohttp.ClientSession() as session:
        for headers in (rebound, {"Origin": "https://evil.example.com"}, {"Origin": "null"}, {"Host": "["}):
            async with session.get(url, headers=headers) as answer:
                assert answer.status == 403
        for headers in ({"Host": "localhost:8001"}, {"Host": "[::1]:8001"}, {"Origin": "http://127.0.0.1:8001"}):
            async with session.get(url, headers=headers) as answer:
                assert answer.status == 200


class Connected(Readable):
    """A resource with a connection of its own."""

    def __init__(self, error=None, group="library.example.com"):
        super().__init__()
        self.kind = definition(Book)
        self.kind["metadata"]["name"], self.kind["spec"]["group"] = f"books.{group}", group
        self.error = error

    async def start(self):
        if self.error is not None:
            raise self.error
        self.calls.append("start")

    async def stop(self):
        self.calls.append("stop")


def test_what_was_started_is_stopped_also_when_the_server_cannot_start():
    async def start(*resources, port=0):
        async with ApiServer(*resources, port=port) as server:
            return int(server.url.rpartition(":")[2])

    async def main():
        fine = Connected()
        await start(fine)
        assert fine.calls == ["start", "stop"]
        first, second = Connected(), Connected(OSError("no route to the database"), "other.example.com")
        with pytest.raises(OSError, match="no route"):
            await start(first, second)
        assert (first.calls, second.calls) == (["start", "stop"], [])
        async with ApiServer(Readable(), port=0) as other:
            taken = Connected()
            with pytest.raises(OSError, match="in use"):
                await start(taken, port=int(other.url.rpartition(":")[2]))
            assert taken.calls == ["start", "stop"]

    asyncio.run(main())


def test_a_server_without_a_cluster_listens_on_loopback_only():
    with pytest.raises(ValueError, match="listen on a loopback address"):
        ApiServer(Readable(), host="0.0.0.0")
    with pytest.raises(ValueError, match="at least one resource"):
        ApiServer()
