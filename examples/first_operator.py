"""A whole operator: a custom kind, and a reconciler that is called for each object of it."""

import asyncio

from kapi import Client, CustomResource, Manager, Model, Request, definition, resource


class GreetingSpec(Model):
    whom: str


@resource("example.com/v1")
class Greeting(CustomResource, kw_only=True):
    spec: GreetingSpec


async def main() -> None:
    async with Client.connect(field_manager="greeter") as client:
        await client.apply(definition(Greeting))
        manager = Manager(client)

        async def reconcile(request: Request) -> None:
            greeting = await manager.client.find(Greeting, request)
            print(f"{request}: {'gone' if greeting is None else 'hello, ' + greeting.spec.whom}", flush=True)

        manager.builder().for_(Greeting).complete(reconcile)
        await manager.run()


if __name__ == "__main__":
    asyncio.run(main())
