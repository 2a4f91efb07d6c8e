"""Writes to a server that has not heard of another server's last write: none is refused, or left out, for that."""

import asyncio
import contextlib

import pytest

from api_client import CM, NS, cm, serving
from custom_kinds import CRDS, WIDGETS, definition, widget
from kapi.base.tls import ensure_private_key
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.server.transport.inprocess import InProcessTransport
from kapi.server.transport.message import Peer, Request
from shared_cluster import Cluster, released
from virtual_time import run

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@contextlib.asynccontextmanager
async def two_servers(**parts):
    """Two servers on one store. Both know of the ConfigMap `there`, and of nothing that happens later."""
    cluster = Cluster()
    one, two = await cluster.connect(), await cluster.connect()
    async with serving(one, **parts) as first:
        await first.made(CM, cm("there"))
        await two.delivered(await two.latest())
        async with serving(two, **parts) as second:
            two.hold()
            yield first, second
            two.release()


def scenario(test):
    """Run `test(first, second)`: what the first server writes, the second hears of when it is released."""

    def runner():
        async def main():
            async with two_servers() as (first, second):
                await test(first, second)

        run(main())

    runner.__name__ = test.__name__
    return runner


@scenario
async def test_an_update_of_an_object_that_another_server_created_is_not_a_404(first, second):
    created = await first.made(CM, cm("new"))
    answer = await released(second, second.put(f"{CM}/new", {**created, "data": {"a": "b"}}))
    assert (answer.status, answer.json["data"]) == (200, {"a": "b"})


@scenario
async def test_a_patch_of_an_object_that_another_server_created_is_not_a_404(first, second):
    await first.made(CM, cm("new"))
    answer = await released(second, second.patch(f"{CM}/new", {"data": {"a": "b"}}))
    assert answer.status == 200


@scenario
async def test_an_update_at_the_revision_another_server_wrote_is_not_a_conflict(first, second):
    changed = await first.patch(f"{CM}/there", {"data": {"a": "1"}})
    answer = await released(second, second.put(f"{CM}/there", {**changed.json, "data": {"a": "2"}}))
    assert (answer.status, answer.json["data"]) == (200, {"a": "2"})


@scenario
async def test_an_update_of_an_object_that_another_server_created_anew_is_not_a_conflict(first, second):
    await first.delete(f"{CM}/there")
    created = await first.made(CM, cm("there"))
    body = cm("there", data={"a": "2"}, metadata={"resourceVersion": created["metadata"]["resourceVersion"]})
    answer = await released(second, second.put(f"{CM}/there", body))
    assert (answer.status, answer.metadata["uid"]) == (200, created["metadata"]["uid"])


@scenario
async def test_an_update_at_an_old_revision_is_a_conflict_though_this_server_has_not_heard_of_a_later_one(
    first, second
):
    old = (await first.get(f"{CM}/there")).json
    await first.patch(f"{CM}/there", {"data": {"a": "1"}})
    answer = await released(second, second.put(f"{CM}/there", {**old, "data": {"a": "2"}}))
    assert answer.error[:2] == (409, "Conflict")


@scenario
async def test_an_update_to_the_state_before_another_servers_write_is_made(first, second):
    """For the second server the update changes nothing, but the object has been changed meanwhile."""
    before = (await first.get(f"{CM}/there")).json
    await first.patch(f"{CM}/there", {"data": {"a": "1"}})
    del before["metadata"]["resourceVersion"]
    answer = await released(second, second.put(f"{CM}/there", before))
    assert (answer.status, answer.json.get("data")) == (200, before.get("data"))
    assert (await first.get(f"{CM}/there")).json.get("data") == before.get("data")


@scenario
async def test_an_object_that_another_server_deleted_can_be_created_again(first, second):
    await first.delete(f"{CM}/there")
    answer = await released(second, second.post(CM, cm("there")))
    assert answer.status == 201


@scenario
async def test_a_deletion_of_an_object_that_another_server_created_is_not_a_404(first, second):
    await first.made(CM, cm("new"))
    answer = await released(second, second.delete(f"{CM}/new"))
    assert answer.status == 200
    assert (await first.get(f"{CM}/new")).status == 404


@scenario
async def test_a_deletion_with_the_revision_another_server_wrote_is_not_a_conflict(first, second):
    changed = await first.patch(f"{CM}/there", {"data": {"a": "1"}})
    options = {"preconditions": {"resourceVersion": changed.metadata["resourceVersion"]}}
    answer = await released(second, second.delete(f"{CM}/there", options))
    assert answer.status == 200


@scenario
async def test_an_object_in_a_namespace_that_another_server_created_is_not_a_404(first, second):
    await first.made(NS, {"metadata": {"name": "new"}})
    answer = await released(second, second.post("/api/v1/namespaces/new/configmaps", cm("a")))
    assert answer.status == 201


@scenario
async def test_what_cannot_be_confirmed_is_a_timeout(first, second):
    await first.made(CM, cm("new"))
    assert (await second.delete(f"{CM}/new")).error[:2] == (504, "Timeout")
    assert (await second.delete(f"{CM}/none")).error[:2] == (504, "Timeout")
    second.storage.release()
    assert (await second.delete(f"{CM}/none")).status == 404


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_a_refusal_of_an_only_server_waits_for_nothing(method):
    async def main():
        async with serving() as api:
            before = asyncio.get_running_loop().time()
            body = [cm("none")] if method == "put" else [{}] if method == "patch" else []
            assert (await getattr(api, method)(f"{CM}/none", *body)).status == 404
            assert asyncio.get_running_loop().time() == before

    run(main())


# -- what is refused before an object is looked at -------------------------------------------------------------------


@scenario
async def test_a_kind_that_another_server_has_defined_is_not_a_404(first, second):
    await first.made(CRDS, definition())
    answer = await released(second, second.post(WIDGETS, widget("a", {"size": 1})))
    assert answer.status == 201


@scenario
async def test_discovery_names_a_kind_that_another_server_has_defined(first, second):
    await first.made(CRDS, definition())
    answer = await released(second, second.get("/apis/example.com/v1"))
    assert "widgets" in [resource["name"] for resource in answer.json["resources"]]


@scenario
async def test_discovery_is_served_from_memory_when_the_store_does_not_answer(first, second):
    await first.made(CRDS, definition())
    assert (await second.get("/apis")).status == 200


@scenario
async def test_a_user_whom_another_server_has_granted_access_is_not_refused(first, second):
    as_bob = InProcessTransport(second.pipeline, "bob", ())
    assert (await second.request("GET", f"{CM}/there", transport=as_bob, resourceVersion="0")).status == 403
    binding = {
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    await first.made(f"{RBAC}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    await first.made(f"{RBAC}/clusterrolebindings", binding)
    request = second.request("GET", f"{CM}/there", transport=as_bob, resourceVersion="0")
    assert (await released(second, request)).status == 200
    await as_bob.close()


@scenario
async def test_the_default_roles_that_another_server_has_created_are_found(first, second):
    await ensure_policy(first.transport, first.catalog)
    await released(second, ensure_policy(second.transport, second.catalog))


def test_a_token_of_an_account_that_another_server_has_created_is_accepted(tmp_path):
    key = tmp_path / "sa.key"
    ensure_private_key(key)

    async def main():
        async with two_servers(key_file=key) as (first, second):
            await first.made(ACCOUNTS, {"metadata": {"name": "robot"}})
            token = (await first.post(f"{ACCOUNTS}/robot/token", {"spec": {}})).json["status"]["token"]

            def listed(secret):
                return second.pipeline(
                    Request("GET", CM, "", {"authorization": f"Bearer {secret}"}, b"", Peer("127.0.0.1"))
                )

            # The account is known, and may do nothing.
            answer = await released(second, listed(token))
            assert answer.status == 403
            assert b"system:serviceaccount:default:robot" in answer.body
            assert (await listed("no-token")).status == 401

    run(main())
