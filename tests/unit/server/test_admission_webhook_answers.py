"""Every kind of answer that a webhook may give: what becomes of it is as in kube-apiserver."""

import re

import pytest

from admission_webhook import admitted, allowing, patch_of
from api_client import CM, cm
from webhook_answers import DENIED, FAILURES, HANGS, MAY_NOT_PATCH, PATCHES, REFUSALS, UNREADABLE
from webhook_server import Certificates, Reply


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def asked(api, webhook, script):
    """Code and message of the answer to a create, without what differs from call to call."""
    webhook.answer = script
    answer = await api.post(CM, cm("a", data={"a": "b"}))
    if answer.status == 201:
        webhook.answer = allowing()
        await api.delete(f"{CM}/{answer.metadata['name']}")
        return 201, ""
    code, reason, message = answer.error
    if reason == "InternalError":
        message = message.removeprefix("Internal error occurred: ")
        assert answer.json["details"] == {"causes": [{"message": message}]}
        message = f"500 {message}"
    message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", message)
    return code, message.replace(webhook.url, "URL").replace(str(webhook.port), "PORT")


async def compare(api, webhook, cases):
    """Check the outcome of every script; each is `(script, code, message)`."""
    found = {name: await asked(api, webhook, script) for name, (script, _, _) in cases.items()}
    assert found == {name: (code, message) for name, (_, code, message) in cases.items()}


@admitted
async def test_answers_that_cannot_be_used(api, webhook):
    await api.mutating()
    await compare(api, webhook, UNREADABLE)


@admitted
async def test_calls_that_fail(api, webhook):
    await api.validating()
    await compare(api, webhook, FAILURES)


@admitted
async def test_calls_that_are_not_answered(api, webhook):
    await api.mutating(timeoutSeconds=1)
    await compare(api, webhook, HANGS)


@pytest.mark.parametrize("kind", ["mutating", "validating"])
@admitted
async def test_refusals(api, webhook, kind):
    await getattr(api, kind)()
    await compare(api, webhook, REFUSALS)


@admitted
async def test_patches(api, webhook):
    await api.mutating()
    await compare(api, webhook, PATCHES)


@admitted
async def test_a_validating_webhook_may_not_patch(api, webhook):
    await api.validating()
    await compare(api, webhook, MAY_NOT_PATCH)


@admitted
async def test_a_refusal_carries_the_whole_status_of_the_webhook(api, webhook):
    details = {"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}]}
    status = {"message": "x", "code": 403, "reason": "Forbidden", "status": "Success", "details": details}
    webhook.answer = allowing(allowed=False, status={**status, "metadata": {"resourceVersion": "7"}, "foo": 1})
    await api.validating()
    answer = await api.post(CM, cm("a"))
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7"},
        "status": "Failure",
        "message": f"{DENIED}: x",
        "reason": "Forbidden",
        "details": details,
        "code": 403,
    }


@admitted
async def test_version_v1beta1_is_asked_where_it_comes_first_and_its_answers_are_hardly_checked(api, webhook):
    await api.mutating(admissionReviewVersions=["v0", "v1beta1", "v1"])
    patch = patch_of({"op": "add", "path": "/data/x", "value": "y"})
    webhook.answer = lambda call: Reply({"response": {"allowed": True, "patch": patch["patch"]}})
    answer = await api.post(CM, cm("a", data={"a": "b"}))
    assert answer.json["data"] == {"a": "b", "x": "y"}
    assert [call.review["apiVersion"] for call in webhook.calls] == ["admission.k8s.io/v1beta1"]
