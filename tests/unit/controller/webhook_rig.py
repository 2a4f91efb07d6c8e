"""A webhook server on loopback and a client that calls it as an API server does, for tests."""

import asyncio
import base64
import contextlib
import ssl

import aiohttp

from kapi import CustomResource, Model, resource
from kapi.controller.webhook import SelfSigned, WebhookServer

GROUP = "hooks.example.com"


class NetworkSpec(Model):
    cidr: str
    gateway: str = ""


@resource(f"{GROUP}/v1")
class Network(CustomResource):
    spec: NetworkSpec


def network(cidr="10.0.0.0/8", **more):
    """A network as JSON, with a field that the class does not have."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Network",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"cidr": cidr, "newer": {"than": "the class"}, **more},
    }


def admission(obj, *, operation="CREATE", old=None, **more):
    """A review as API servers send it."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": GROUP, "version": "v1", "kind": "Network"},
            "resource": {"group": GROUP, "version": "v1", "resource": "networks"},
            "requestKind": {"group": GROUP, "version": "v1", "kind": "Network"},
            "requestResource": {"group": GROUP, "version": "v1", "resource": "networks"},
            "name": "a",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["system:authenticated"], "extra": {"k": ["v"]}},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
            **more,
        },
    }


@contextlib.asynccontextmanager
async def running(server):
    """The server at work, and stopped at the end."""
    task = asyncio.ensure_future(server.run())
    try:
        started = asyncio.ensure_future(server.wait_started())
        await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            started.cancel()
            task.result()
        yield server
    finally:
        server.stop()
        await task


class Caller:
    """Calls a server by HTTPS, trusting the server's bundle and nothing else."""

    def __init__(self, server, session):
        self._server = server
        self._session = session

    async def post(self, path, body, **options):
        """Status and decoded body (or text) of an answer."""
        url = f"https://127.0.0.1:{self._server.port}{path}"
        context = ssl.create_default_context(cadata=base64.b64decode(self._server.ca_bundle()).decode())
        options.setdefault("headers", {"Content-Type": "application/json; charset=utf-8"})
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._session.post(url, ssl=context, **data, **options) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())

    async def respond(self, path, review):
        """The response to a proper review."""
        status, answer = await self.post(path, review)
        assert status == 200, answer
        assert (answer["apiVersion"], answer["kind"]) == (review["apiVersion"], review["kind"])
        assert answer["response"].pop("uid") == review["request"]["uid"]
        return answer["response"]


def called(register, test):
    """Serve what `register` registers, and run a test with the caller."""

    async def main():
        server = WebhookServer("127.0.0.1", 0, certificates=SelfSigned(["127.0.0.1"]))
        register(server)
        async with asyncio.timeout(30), running(server), aiohttp.ClientSession() as session:
            await test(Caller(server, session))

    asyncio.run(main())
