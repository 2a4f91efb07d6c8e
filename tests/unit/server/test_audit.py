"""Audit events: what is recorded of a request at each level and stage."""

import asyncio
import json

import pytest

from api_client import APPLY, CM, NS, PODS, TOKEN, cm, serving
from kapi.server.audit.auditor import Auditor
from kapi.server.audit.policy import DEFAULT_POLICY, Policy
from virtual_time import LoopClock, run

ALICE = {"authorization": f"Bearer {TOKEN}", "user-agent": "kubectl/v1.36"}


class Events:
    """A backend that keeps events."""

    def __init__(self):
        self.lines = []

    def write(self, events):
        self.lines.extend(events)

    async def close(self):
        pass

    def take(self):
        taken = [json.loads(line) for line in self.lines]
        self.lines.clear()
        return taken

    def one(self):
        (event,) = self.take()
        return event


def audited(*rules, omit=("RequestReceived",), **policy):
    """Run `test(api, events)` against a server that records by these rules."""
    document = {"omitStages": list(omit), "rules": list(rules), **policy}

    def decorate(test):
        def runner():
            async def main():
                events, clock = Events(), LoopClock()
                auditor = Auditor(Policy(document), [events], clock)
                async with serving(auditor=auditor, clock=clock) as api:
                    events.lines.clear()
                    await test(api, events)

            run(main())

        runner.__name__ = test.__name__
        runner.__doc__ = test.__doc__
        return runner

    return decorate


METADATA, REQUEST, RESPONSE = {"level": "Metadata"}, {"level": "Request"}, {"level": "RequestResponse"}


@audited(METADATA)
async def test_an_event_says_who_did_what_to_which_object_and_when(api, events):
    await api.as_peer("GET", f"{CM}/x?pretty=1", headers=ALICE)
    event = events.one()
    stamps = (event.pop("requestReceivedTimestamp"), event.pop("stageTimestamp"))
    assert all(len(stamp) == len("2026-01-01T00:00:00.000000Z") and stamp.endswith("Z") for stamp in stamps)
    assert len(event.pop("auditID")) == 36
    why = 'User "alice" cannot get resource "configmaps" in API group "" in the namespace "default"'
    assert event == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "requestURI": f"{CM}/x?pretty=1",
        "verb": "get",
        "user": {"username": "alice", "uid": "u-1", "groups": ["devs", "system:authenticated"]},
        "sourceIPs": ["192.0.2.1"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {"resource": "configmaps", "namespace": "default", "name": "x", "apiVersion": "v1"},
        "responseStatus": {
            "metadata": {},
            "status": "Failure",
            "message": f'configmaps "x" is forbidden: {why}',
            "reason": "Forbidden",
            "details": {"name": "x", "kind": "configmaps"},
            "code": 403,
        },
        "annotations": {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""},
    }


@audited(METADATA)
async def test_the_audit_id_is_that_of_the_response(api, events):
    answer = await api.as_peer("GET", "/version", headers={**ALICE, "audit-id": "mine"})
    assert answer.header("Audit-Id") == events.one()["auditID"] == "mine"


@audited(METADATA)
async def test_an_allowed_request_has_its_decision_and_code(api, events):
    await api.made(CM, cm("a"))
    event = events.one()
    assert event["responseStatus"] == {"metadata": {}, "code": 201}
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert event["objectRef"] == {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert "requestObject" not in event


@audited(METADATA)
async def test_metadata_of_the_body_completes_the_reference_to_the_object(api, events):
    made = await api.made(CM, cm("a"))
    await api.put(f"{CM}/a", made)
    reference = events.take()[1]["objectRef"]
    assert reference["uid"] == made["metadata"]["uid"]
    assert reference["resourceVersion"] == made["metadata"]["resourceVersion"]


@audited(METADATA, omit=())
async def test_a_request_has_two_stages(api, events):
    await api.get(f"{CM}/a")
    received, complete = events.take()
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert "responseStatus" not in received
    assert complete["responseStatus"]["code"] == 404
    assert received["auditID"] == complete["auditID"]


@audited(METADATA, omit=())
async def test_a_watch_has_a_stage_when_it_starts_and_one_when_it_ends(api, events):
    watch = await api.watch(CM)
    assert [event["stage"] for event in events.take()] == ["RequestReceived", "ResponseStarted"]
    await watch.close()
    event = events.one()
    assert (event["stage"], event["verb"], event["responseStatus"]["code"]) == ("ResponseComplete", "watch", 200)


@audited(METADATA, omit=())
async def test_invalid_credentials_are_recorded_without_them(api, events):
    await api.as_peer("GET", f"{CM}?x=1", headers={"authorization": "Bearer the-secret-canary"})
    assert b"canary" not in events.lines[0]
    event = events.one()
    assert event["stage"] == "ResponseStarted"
    assert event["user"] == {}
    failure = {"status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}
    assert event["responseStatus"] == {"metadata": {}, **failure}


@audited(METADATA)
async def test_proxies_are_listed_before_the_address_of_the_connection(api, events):
    forwarded = {**ALICE, "x-forwarded-for": "198.51.100.7, nonsense, 2001:db8::1", "x-real-ip": "198.51.100.8"}
    await api.as_peer("GET", "/version", headers=forwarded)
    assert events.one()["sourceIPs"] == ["198.51.100.7", "2001:db8::1", "198.51.100.8", "192.0.2.1"]


@audited(METADATA)
async def test_a_long_user_agent_is_cut(api, events):
    await api.as_peer("GET", "/version", headers={**ALICE, "user-agent": "x" * 5000})
    assert events.one()["userAgent"] == "x" * 1024 + "...TRUNCATED"


# -- bodies -----------------------------------------------------------------------------------------------------------


@audited(REQUEST)
async def test_level_request_records_what_was_sent_and_not_what_was_answered(api, events):
    await api.made(CM, cm("a", data={"k": "v"}))
    event = events.one()
    assert event["requestObject"]["data"] == {"k": "v"}
    assert "responseObject" not in event
    await api.get(f"{CM}/a")
    assert "responseObject" not in events.one()


@pytest.mark.parametrize("content_type", ["application/merge-patch+json", APPLY])
def test_a_patch_is_recorded_as_it_was_sent(content_type):
    patch = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}}

    @audited(REQUEST)
    async def check(api, events):
        await api.made(CM, cm("a"))
        events.lines.clear()
        assert (await api.patch(f"{CM}/a", patch, content_type, fieldManager="m")).status == 200
        assert events.one()["requestObject"] == patch

    check()


@audited(REQUEST)
async def test_the_options_of_a_delete_are_recorded(api, events):
    await api.made(CM, cm("a"))
    events.lines.clear()
    await api.delete(f"{CM}/a", {"propagationPolicy": "Background"})
    event = events.one()
    assert event["requestObject"]["propagationPolicy"] == "Background"
    assert event["responseStatus"]["status"] == "Success"


@audited(RESPONSE)
async def test_level_request_response_records_what_was_answered(api, events):
    made = await api.made(CM, cm("a"))
    assert events.one()["responseObject"] == made
    listed = (await api.get(CM, labelSelector="x=y")).json
    assert events.one()["responseObject"] == listed
    await api.request("GET", f"{CM}/a", headers={"accept": "application/yaml"})
    assert events.one()["responseObject"] == made


@audited(RESPONSE, omitManagedFields=True)
async def test_managed_fields_are_left_out_where_the_policy_says_so(api, events):
    made = (await api.post(CM, cm("a", data={"k": "v"}), fieldManager="m")).json
    assert made["metadata"].pop("managedFields")
    event = events.one()
    assert event["responseObject"] == made
    await api.get(CM)
    items = events.one()["responseObject"]["items"]
    assert items
    assert not any("managedFields" in item["metadata"] for item in items)
    await api.put(f"{CM}/a", {**made, "metadata": {**made["metadata"], "managedFields": []}})
    assert "managedFields" not in events.one()["requestObject"]["metadata"]


@audited(RESPONSE)
async def test_a_large_body_is_left_out_and_the_event_says_so(api, events):
    await api.made(CM, cm("a", data={"k": "x" * 200_000}))
    event = events.one()
    assert "requestObject" not in event
    assert "responseObject" not in event
    assert event["annotations"]["audit.k8s.io/truncated"] == "true"


@audited(RESPONSE)
async def test_no_body_of_a_secret_or_token_request_is_recorded(api, events):
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "the-secret-canary"}}
    await api.made(f"{NS}/default/secrets", secret)
    await api.get(f"{NS}/default/secrets")
    await api.patch(f"{NS}/default/secrets/s", {"stringData": {"password": "the-other-canary"}})
    review = {"spec": {"token": "the-token-canary"}}
    await api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert len(events.lines) == 4
    assert not any(b"canary" in line for line in events.lines)


# -- failures ---------------------------------------------------------------------------------------------------------


@audited(METADATA)
async def test_a_failure_of_the_server_is_of_stage_panic(api, events):
    def fail(context):
        raise RuntimeError("planted")

    api.pipeline._router._page = fail
    assert (await api.get("/version")).status == 500
    event = events.one()
    assert (event["stage"], event["responseStatus"]["code"]) == ("Panic", 500)


@audited(METADATA)
async def test_a_client_that_disconnects_is_recorded(api, events):
    async def wait(context):
        await asyncio.Event().wait()

    api.pipeline._router._page = wait
    request = asyncio.ensure_future(api.get("/version"))
    await asyncio.sleep(1)
    request.cancel()
    await asyncio.wait([request])
    assert events.one()["responseStatus"]["code"] == 499


@audited({"level": "None"})
async def test_nothing_is_recorded_at_level_none(api, events):
    await api.made(CM, cm("a"))
    await api.as_peer("GET", CM, headers={"authorization": "Bearer wrong"})
    assert events.lines == []


@audited(*DEFAULT_POLICY["rules"])
async def test_the_default_policy_records_a_write_with_its_body(api, events):
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    (container,) = events.one()["requestObject"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("c", "i")


@audited(METADATA)
async def test_an_impersonated_request_has_both_users_and_the_verb_that_allowed_it(api, events):
    await api.get(f"{NS}/default/configmaps", headers={"impersonate-user": "zoe"})
    event = events.one()
    assert event["user"]["username"] == "system:apiserver"
    assert event["impersonatedUser"] == {"username": "zoe", "groups": ["system:authenticated"]}
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["responseStatus"]["code"] == 403
