"""Asking a real webhook on loopback to convert, without a server around it."""

import asyncio
import copy

import pytest

from kapi.api.errors import PlainError
from kapi.base.http import Outbound
from kapi.server.webhooks.conversion import WebhookConverter
from webhook_server import V1, V1BETA1, Webhook, honest, listener, lying

WHAT = f"conversion webhook for {V1BETA1}, Kind=Listener"


def converting(certificates, test, *versions, script=honest, seconds=20, **config):
    """Run `test(webhook, convert)`, where `convert(objects, api_version)` asks the webhook."""

    async def main():
        outbound = Outbound()
        async with Webhook(certificates, script=script) as webhook:
            spec = webhook.conversion(*versions, **config)
            try:
                return await test(webhook, WebhookConverter(spec, outbound, None, seconds=seconds).convert)
            finally:
                await outbound.close()

    return asyncio.run(main())


def stored(name="a", api_version=V1BETA1, **fields):
    """A listener as it is stored."""
    metadata = {"namespace": "default", "uid": f"uid-of-{name}", **fields.pop("metadata", {})}
    return listener(name, api_version, metadata=metadata, **fields)


def message_of(certificates, script, objects=None, *versions, **options):
    """Return the message of the error when one object (or several) is converted to v1."""

    async def test(webhook, convert):
        given = objects or [stored()]
        before = copy.deepcopy(given)
        with pytest.raises(PlainError) as caught:
            await convert(given, V1)
        assert given == before, "what was given must not change"
        assert caught.value.status()["code"] == 500
        return caught.value.message.replace(webhook.url, "URL").replace(str(webhook.port), "PORT")

    return converting(certificates, test, *versions, script=script, **options)


def instead(*objects):
    """The honest review with other objects."""
    return lying(lambda review: review["response"].update(convertedObjects=list(objects)))
