"""A server killed while it empties a namespace: the next one finishes, and deletes nothing else."""

import asyncio

import pytest
from live_server import Line, LiveServer, until

NAMESPACES = "/api/v1/namespaces"
MAPS = f"{NAMESPACES}/probe/configmaps"
OBJECTS = 600


async def _fill(server):
    line = await Line.open(server)
    for name in ("probe", "other"):
        assert (await line.request("POST", NAMESPACES, {"metadata": {"name": name}})).status == 201
    assert (await line.request("POST", f"{NAMESPACES}/other/configmaps", {"metadata": {"name": "kept"}})).status == 201
    lines = [await Line.open(server) for _ in range(8)]
    numbers = iter(range(OBJECTS))

    async def work(own):
        for number in numbers:
            finalizers = ["example.com/x"] if number == 300 else []
            body = {"metadata": {"name": f"c{number:03}", "finalizers": finalizers}}
            assert (await own.request("POST", MAPS, body)).status == 201

    await asyncio.gather(*(work(own) for own in lines))
    for own in [line, *lines]:
        own.close()


async def _names(line, path):
    reply = await line.request("GET", path)
    return [item["metadata"]["name"] for item in reply.json["items"]]


async def _deleted_in_part(server):
    """Begin the deletion; return how many of the test's objects are left after the first of them was deleted."""
    line, watching = await Line.open(server), await Line.open(server)
    assert (await line.request("DELETE", f"{NAMESPACES}/probe")).status == 200
    async for event in watching.watch(f"{MAPS}?watch=1"):
        # A controller puts kube-root-ca.crt into every namespace; it may be the first to be deleted.
        if event["type"] == "DELETED" and event["object"]["metadata"]["name"] != "kube-root-ca.crt":
            break
    left = len(set(await _names(line, MAPS)) - {"kube-root-ca.crt"})
    line.close()
    watching.close()
    return left


async def _finished(server):
    line = await Line.open(server)

    async def only_the_held_one_is_left():
        if await _names(line, MAPS) != ["c300"]:
            return False
        conditions = (await line.request("GET", f"{NAMESPACES}/probe")).json["status"].get("conditions", ())
        messages = {condition["type"]: condition["message"] for condition in conditions}
        return messages.get("NamespaceContentRemaining", "").endswith(": configmaps. has 1 resource instances")

    await until(only_the_held_one_is_left)
    patch = b'{"metadata":{"finalizers":null}}'
    reply = await line.request("PATCH", f"{MAPS}/c300", patch, "application/merge-patch+json")
    assert reply.status == 200

    async def is_gone():
        return (await line.request("GET", f"{NAMESPACES}/probe")).status == 404

    await until(is_gone)
    assert await _names(line, MAPS) == []
    others = await _names(line, f"{NAMESPACES}/other/configmaps")
    line.close()
    return others


@pytest.mark.slow
def test_namespace_deletion_continues_after_a_kill(tmp_path):
    server = LiveServer(tmp_path / "data", controllers="*")
    with server:
        asyncio.run(_fill(server))
        server.kill()
        # Every commit takes a while, so that there is something left when the kill comes.
        server.environment = {"KAPI_FAILPOINTS": "storage.before_commit=sleep:0.2"}
        server.start()
        assert 1 < asyncio.run(_deleted_in_part(server)) < OBJECTS
        server.kill()
        server.environment = {}
        server.start()
        assert sorted(asyncio.run(_finished(server))) == ["kept", "kube-root-ca.crt"]
    assert "Traceback" not in server.log
