"""The deadline of reads for which a conversion webhook may be asked; virtual time, so that a minute costs nothing."""

import asyncio

import pytest

from api_client import serving
from custom_kinds import GROUP, WIDGETS, defined, definition, version, widget
from virtual_time import run


class Hanging:
    """A converter that never answers."""

    async def convert(self, objects, api_version):
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("name", ["", "/w"], ids=["list", "get"])
def test_read_without_a_query_ends_after_a_minute_if_the_conversion_webhook_does_not_answer(name):
    async def main():
        async with serving(converter_for=lambda *_: Hanging()) as api:
            crd = definition(versions=[version("v1", storage=True), version("v2")])
            webhook = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            await defined(api, crd)
            await api.made(WIDGETS, widget())
            began = api.clock.monotonic()
            answer = await api.get(f"/apis/{GROUP}/v2/namespaces/default/widgets{name}")
            assert (answer.status, answer["reason"]) == (504, "Timeout")
            assert api.clock.monotonic() - began == pytest.approx(60)

    run(main())
