"""The registration of a conversion webhook: the authority of the server in definitions."""

import asyncio

import pytest
from webhook_rig import GROUP, Network

from kapi import definition
from kapi.controller.webhook import Registration, SelfSigned, WebhookServer
from kapi.testing import Environment

NAME = f"networks.{GROUP}"
KIND = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def converted():
    made = definition(Network)
    service = {"namespace": "default", "name": "hooks", "path": "/convert"}
    made["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }
    return made


def test_the_authority_is_put_into_definitions_once():
    async def main():
        bundle = SelfSigned(["127.0.0.1"]).ca_bundle()
        async with Environment(crds=[converted()]) as env:
            registration = Registration(env.client, "hooks", service="default/hooks", definitions=[NAME])
            await registration.apply([], bundle, 9443)
            stored = await env.client.get(KIND, NAME)
            assert stored["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == bundle
            env.history.clear()
            await registration.apply([], bundle, 9443)
            assert env.history.requests() == []

    asyncio.run(main())


def test_a_definition_without_a_conversion_webhook_does_not_end_the_server():
    async def main():
        async with Environment(crds=[Network]) as env:
            registration = Registration(env.client, "hooks", service="default/hooks", definitions=[NAME])
            server = WebhookServer(
                "127.0.0.1", 0, certificates=SelfSigned(["127.0.0.1"]), registration=registration, refresh_seconds=0.01
            )
            running = asyncio.ensure_future(server.run())
            await server.wait_started()
            with pytest.raises(ValueError, match="is not converted by a webhook"):
                await registration.apply([], server.ca_bundle(), 0)
            await env.client.apply(converted(), force=True)
            async with asyncio.timeout(60):
                await server.wait_registered()
            server.stop()
            await running

    asyncio.run(main())
