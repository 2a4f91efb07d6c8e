"""An API server in memory whose listeners are converted by a real webhook on loopback; `wired` makes tests of it.

The webhook is a socket, so these tests run in real time, and wait for events instead.
"""

import asyncio
import contextlib
import functools
import gc
import inspect

from api_client import Api
from kapi.base.clock import SystemClock
from kapi.base.http import Outbound
from kapi.server.webhooks.conversion import WebhookConverter
from webhook_server import DEFINITIONS, NAME, V1, Webhook, definition, listener, path

PATIENCE = 20
"""Seconds after which something that should have happened is missed."""


class ConvertingApi(Api):
    """The server; `seconds` is how long it waits for a webhook."""

    def __init__(self, webhook, *, seconds=PATIENCE):
        self.webhook = webhook
        self.outbound = Outbound()
        self._seconds = seconds
        super().__init__(clock=SystemClock(), converter_for=self._converter)

    def _converter(self, name, conversion):
        return WebhookConverter(conversion, self.outbound, self.catalog, seconds=self._seconds)

    async def stop(self):
        await super().stop()
        await self.outbound.close()

    async def define(self, **options):
        """Have listeners, converted by the webhook."""
        return await self.made(DEFINITIONS, definition(self.webhook.conversion(), **options))

    async def redefine(self, change):
        """Change the definition of listeners: `change(spec)`."""
        obj = (await self.get(f"{DEFINITIONS}/{NAME}")).json
        change(obj["spec"])
        answer = await self.put(f"{DEFINITIONS}/{NAME}", obj)
        assert answer.status == 200, answer

    async def store_in(self, version):
        """Make another version the one that is stored."""

        def change(spec):
            for one in spec["versions"]:
                one["storage"] = one["name"] == version

        await self.redefine(change)

    async def listeners(self, *names, api_version=V1, namespace="default", **spec):
        """Make some."""
        where = path(api_version, namespace=namespace)
        return [await self.made(where, listener(name, api_version, **spec)) for name in names]

    async def calls(self, work):
        """What work brings, and the names in every review it took."""
        before = len(self.webhook.calls)
        answer = await work
        return answer, [call.names for call in self.webhook.calls[before:]]


@contextlib.asynccontextmanager
async def converting(certificates, *, seconds=PATIENCE, define=True):
    """A server and its webhook, with listeners defined."""
    async with Webhook(certificates) as webhook:
        api = ConvertingApi(webhook, seconds=seconds)
        async with asyncio.timeout(100):
            await api.start()
            try:
                if define:
                    await api.define()
                yield api, webhook
            finally:
                await api.stop()


def wired(test=None, **options):
    """Run `test(api, webhook, …)` with a fresh server; the module has a fixture `certificates`."""
    if test is None:
        return functools.partial(wired, **options)

    @functools.wraps(test)
    def runner(certificates, **kwargs):
        async def main():
            async with converting(certificates, **options) as (api, webhook):
                await test(api, webhook, **kwargs)

        asyncio.run(main())
        gc.collect()  # what was not closed warns, and warnings are errors

    parameters = list(inspect.signature(test).parameters.values())[2:]
    first = inspect.Parameter("certificates", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    runner.__signature__ = inspect.Signature([first, *parameters])
    return runner
