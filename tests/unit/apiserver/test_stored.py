"""Resources that Kapi stores for an API server of one's own."""

import asyncio
from typing import Any

import pytest

from apiserver_books import BOOKS, MERGE, Book, Polled, book, serving, watching
from kapi.api.crd import Scale
from kapi.api.errors import Conflict, NotFound
from kapi.apiserver import CustomResource, Model, Resource, Stored, resource

APPLY = "application/apply-patch+yaml"
NOTES = "/apis/notes.example.com/{}/namespaces/default/notes"


@resource("notes.example.com/v1", kind="Note")
class Note(CustomResource):
    """A note."""

    text: str = ""


@resource("notes.example.com/v1beta1", kind="Note", storage=False)
class NoteV1Beta1(CustomResource):
    """The same in an older version."""

    text: str = ""


class FleetSpec(Model):
    ships: int = 1


@resource("harbour.example.com/v1", scale=Scale(".spec.ships", ".status.ships"))
class Fleet(CustomResource):
    """A kind with a number of replicas."""

    spec: FleetSpec
    status: FleetSpec | None = None


class Fleets(Resource[Fleet]):
    """The same kind, in a backing."""

    async def get(self, request, name):
        return None


def run(main):
    async def bounded():
        async with asyncio.timeout(60):
            await main()

    asyncio.run(bounded())


def test_a_stored_resource_has_all_verbs_field_owners_and_finalizers():
    async def main():
        async with serving(Stored(Book)) as client, watching(client, BOOKS) as following:
            entry = (await client.request("GET", "/apis/library.example.com/v1"))["resources"][0]
            assert set(entry["verbs"]) >= {"create", "delete", "get", "list", "patch", "update", "watch"}

            async def apply(manager, spec, **query):
                body = {**book("alice"), "spec": spec}
                query = {"fieldManager": manager, **query}
                return await client.request("PATCH", f"{BOOKS}/alice", body=body, content_type=APPLY, query=query)

            await apply("one", {"title": "Alice", "copies": 2})
            with pytest.raises(Conflict, match='conflict with "one"'):
                await apply("two", {"title": "Alicia"})
            applied = await apply("two", {"title": "Alicia"}, force="true")
            assert applied["spec"] == {"title": "Alicia", "copies": 2}
            finalizers = {"metadata": {"finalizers": ["example.com/hold"]}}
            await client.request("PATCH", f"{BOOKS}/alice", body=finalizers, content_type=MERGE)
            deleting = await client.request("DELETE", f"{BOOKS}/alice")
            assert deleting["metadata"]["deletionTimestamp"]
            none: Any = {"metadata": {"finalizers": None}}
            await client.request("PATCH", f"{BOOKS}/alice", body=none, content_type=MERGE)
            with pytest.raises(NotFound):
                await client.request("GET", f"{BOOKS}/alice")
            kinds = [(await following())[0] for _ in range(5)]
            assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]

    run(main)


def test_a_stored_resource_is_scaled_and_a_backed_one_is_not():
    async def main():
        async with serving(Stored(Fleet)) as client:
            path = "/apis/harbour.example.com/v1/namespaces/default/fleets"
            fleet = {"apiVersion": "harbour.example.com/v1", "kind": "Fleet", "metadata": {"name": "north"}, "spec": {}}
            await client.request("POST", path, body=fleet)
            scaled = {"spec": {"replicas": 4}}
            await client.request("PATCH", f"{path}/north/scale", body=scaled, content_type=MERGE)
            assert (await client.request("GET", f"{path}/north"))["spec"]["ships"] == 4
            assert (await client.request("GET", f"{path}/north/scale"))["kind"] == "Scale"
        with pytest.raises(TypeError, match="only Stored resources have the scale sub-resource"):
            async with serving(Fleets(Fleet)):
                pass

    run(main)


def test_versions_of_a_stored_resource_share_their_objects():
    async def main():
        async with serving(Stored(Note, NoteV1Beta1)) as client:
            made = {"apiVersion": "notes.example.com/v1beta1", "kind": "Note", "metadata": {"name": "a"}, "text": "x"}
            await client.request("POST", NOTES.format("v1beta1"), body=made)
            read = await client.request("GET", NOTES.format("v1") + "/a")
            assert (read["apiVersion"], read["text"]) == ("notes.example.com/v1", "x")
            group = await client.request("GET", "/apis/notes.example.com")
            assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]

    run(main)


def test_objects_and_versions_outlive_the_process_in_a_data_directory(tmp_path):
    async def main():
        async with serving(Stored(Book), data_dir=tmp_path) as client:
            created = await client.request("POST", BOOKS, body=book("alice"))
        async with serving(Stored(Book), data_dir=tmp_path) as client:
            assert await client.request("GET", f"{BOOKS}/alice") == created
            version = created["metadata"]["resourceVersion"]
            async with watching(client, BOOKS, resourceVersion=version) as following:
                await client.request("POST", BOOKS, body=book("bobby"))
                assert (await following())[:2] == ("ADDED", "bobby")

    run(main)


def test_stored_and_backed_resources_are_served_side_by_side():
    async def main():
        async with serving(Stored(Note), Polled(book("alice"))) as client:
            groups = (await client.request("GET", "/apis"))["groups"]
            assert {one["name"] for one in groups} == {"library.example.com", "notes.example.com"}
            note = {"apiVersion": "notes.example.com/v1", "kind": "Note", "metadata": {"name": "a"}}
            await client.request("POST", NOTES.format("v1"), body=note)
            assert len((await client.request("GET", BOOKS))["items"]) == 1

    run(main)
