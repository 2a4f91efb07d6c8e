"""Admission functions of a program that embeds a control plane: the chain and the review of webhooks, without HTTP."""

import asyncio

import pytest

from api_client import cm
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import ApiError, Forbidden
from kapi.controller.webhook import AdmissionRequest, Allowed, Denied, Match, WebhookFunctions
from kapi.testing import Environment

RULES = Match(operations=["CREATE", "UPDATE", "DELETE"])


def asked(webhooks, test):
    """Run `test(client)` on a control plane with functions."""

    async def main():
        async with Environment(webhooks=webhooks, controllers=()) as env:
            await test(env.client)

    asyncio.run(main())


def configmap(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", **cm(name, data=data)}


def test_a_function_changes_refuses_and_warns():
    webhooks, seen = WebhookFunctions(), []

    @webhooks.mutating(ConfigMap)
    async def fill_in(obj: ConfigMap, request: AdmissionRequest[ConfigMap]) -> None:
        obj.data = {**(obj.data or {}), "added": "yes"}

    @webhooks.validating(ConfigMap, match=RULES)
    def validate(request: AdmissionRequest[ConfigMap]) -> Allowed | None:
        seen.append((request.operation, request.name, request.user.username, request.dry_run))
        if request.subject.metadata.name == "no":
            raise Denied("not this one", code=409)
        return Allowed(warnings=["be careful"])

    async def test(client):
        made = await client.create(configmap("yes", given="too"), namespace="default")
        assert made["data"] == {"given": "too", "added": "yes"}
        with pytest.raises(ApiError) as error:
            await client.create(configmap("no"), namespace="default")
        assert error.value.code == 409
        assert error.value.message == (
            'admission webhook "validate.v1.configmap.core" denied the request: not this one'
        )
        await client.delete(("v1", "ConfigMap"), "yes", namespace="default")

    asked(webhooks, test)
    mine = [one for one in seen if one[1] in ("yes", "no")]
    assert [one[:2] for one in mine] == [("CREATE", "yes"), ("CREATE", "no"), ("DELETE", "yes")]


def test_a_function_that_fails_is_a_webhook_that_fails():
    webhooks = WebhookFunctions()

    @webhooks.validating(ConfigMap, match=Match(object_selector={"matchLabels": {"strict": "yes"}}))
    def strict(request: AdmissionRequest[ConfigMap]) -> None:
        raise ZeroDivisionError

    @webhooks.validating(
        "/slow", ConfigMap, match=Match(conditions={"slow": "object.metadata.name == 'slow'"}, timeout_seconds=1)
    )
    async def slow(request: AdmissionRequest[ConfigMap]) -> None:
        await asyncio.Event().wait()

    async def test(client):
        await client.create(configmap("a"), namespace="default")
        labelled = configmap("b")
        labelled["metadata"]["labels"] = {"strict": "yes"}
        with pytest.raises(ApiError, match="the webhook failed; its log says why"):
            await client.create(labelled, namespace="default")
        with pytest.raises(ApiError, match=r'failed calling webhook "validate\.v1\.configmap\.core": failed to call'):
            await client.create(configmap("slow"), namespace="default")

    asked(webhooks, test)


def test_objects_of_other_kinds_are_not_shown():
    webhooks = WebhookFunctions()

    @webhooks.validating(ConfigMap)
    def refuse(request: AdmissionRequest[ConfigMap]) -> None:
        raise Denied("no ConfigMaps here")

    async def test(client):
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, namespace="default")
        with pytest.raises(Forbidden, match="no ConfigMaps here"):
            await client.create(configmap("a"), namespace="default")

    asked(webhooks, test)
