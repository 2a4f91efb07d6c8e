"""A server that was cut off from its store for longer than history is kept: it reads the store anew and goes on."""

import asyncio

from test_delayed_server import scenario

from api_client import CM, cm
from custom_kinds import CRDS, WIDGET_CRD, WIDGETS, definition, widget
from shared_cluster import released

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SUBJECT = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
READER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
BINDING = {"metadata": {"name": "readers"}, "roleRef": READER, "subjects": [SUBJECT]}
ROLE = {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["list"]}]}


@scenario
async def test_reads_and_writes_are_of_the_present(first, second):
    await first.made(CM, cm("new"))
    await first.delete(f"{CM}/there")
    await second.storage.lose()
    assert (await second.get(CM)).names == (await second.get(CM, resourceVersion="0")).names == ["new"]
    assert (await second.get(f"{CM}/there")).status == 404
    assert (await second.patch(f"{CM}/new", {"data": {"a": "b"}})).status == 200
    assert (await first.get(f"{CM}/new")).json["data"] == {"a": "b"}
    assert (await second.made(CM, cm("newer")))["metadata"]["name"] == "newer"


@scenario
async def test_a_read_that_waits_for_what_was_lost_is_answered(first, second):
    await first.made(CM, cm("new"))
    read = asyncio.ensure_future(second.get(f"{CM}/new"))
    await asyncio.sleep(1)
    assert not read.done()
    await second.storage.lose()
    assert (await read).status == 200


@scenario
async def test_open_watches_end_with_410_and_a_new_one_goes_on(first, second):
    watch = await second.watch(CM, resourceVersion=str(second.revision))
    await first.made(CM, cm("new"))
    await second.storage.lose()
    event = await watch.next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert await watch.rest() == []
    listed = await second.get(CM)
    assert listed.names == ["new", "there"]
    again = await second.watch(CM, resourceVersion=listed.version)
    await first.made(CM, cm("newer"))
    assert await again.brief(1) == [("ADDED", "newer")]


@scenario
async def test_roles_and_definitions_are_those_of_the_store(first, second):
    await first.made(CRDS, definition())
    await first.made(WIDGETS, widget("w"))
    await first.made(f"{RBAC}/clusterroles", ROLE)
    await first.made(f"{RBAC}/clusterrolebindings", BINDING)
    alice = second.user("alice")
    assert (await second.request("GET", CM, transport=alice, resourceVersion="0")).status == 403
    await second.storage.lose()
    assert (await second.request("GET", CM, transport=alice, resourceVersion="0")).status == 200
    assert (await second.get(WIDGETS)).names == ["w"]
    second.storage.hold()
    await first.delete(f"{RBAC}/clusterrolebindings/readers")
    await first.delete(WIDGET_CRD)
    await asyncio.sleep(60)
    await second.storage.lose()
    assert (await second.request("GET", CM, transport=alice, resourceVersion="0")).status == 403
    assert (await second.get(WIDGETS)).status == 404


@scenario
async def test_what_happens_after_the_gap_is_told_as_ever(first, second):
    await first.made(CM, cm("new"))
    await second.storage.lose()
    second.storage.hold()
    await first.made(CM, cm("newer"))
    assert (await released(second, second.get(f"{CM}/newer"))).status == 200
