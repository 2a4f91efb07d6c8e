"""An admission webhook on loopback, for tests, and an API server in memory that calls it; `admitted` makes tests of both.

The webhook is a real HTTPS server whose `script` decides what is answered. Tests run in real time and wait for events.
"""

import asyncio
import base64
import contextlib
import functools
import gc
import inspect
import json

from api_client import Api
from kapi.base.clock import SystemClock
from webhook_server import Reply, Webhook

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
PATIENCE = 60
"""Seconds after which something that should have happened is missed."""


def allow(call, *, allowed=True, **response):
    """The review that answers a call; `response` are further fields of it."""
    review = call.review
    response = {"uid": review["request"]["uid"], "allowed": allowed, **response}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def allowing(**response):
    """A script that allows everything."""
    return lambda call: Reply(allow(call, **response))


def denying(**status):
    """A script that refuses everything."""
    return lambda call: Reply(allow(call, allowed=False, status=status) if status else allow(call, allowed=False))


def patch_of(*operations):
    """The fields of a response that carry a patch."""
    data = operations[0] if operations and isinstance(operations[0], bytes) else json.dumps(operations).encode()
    return {"patchType": "JSONPatch", "patch": base64.b64encode(data).decode()}


def patching(*operations):
    """A script that patches everything."""
    return allowing(**patch_of(*operations))


def label(name, value="yes"):
    """An operation that labels an object which has labels."""
    return {"op": "add", "path": f"/metadata/labels/{name}", "value": value}


def data(key, value="yes"):
    """An operation on a ConfigMap that has data."""
    return {"op": "add", "path": f"/data/{key}", "value": value}


class AdmissionWebhook(Webhook):
    """The server. `script` may be a table of scripts by path, as several webhooks are one server in tests."""

    def __init__(self, certificates, *names, script=None):
        super().__init__(certificates, *names, script=self._dispatch)
        self.answer = script or allowing()
        self.paths = {}

    def _dispatch(self, call):
        return self.paths.get(call.target.partition("?")[0], self.answer)(call)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}/admit"

    @property
    def requests(self):
        """The requests of all reviews so far."""
        return [call.review["request"] for call in self.calls]

    @property
    def called_paths(self):
        return [call.target.partition("?")[0] for call in self.calls]

    def webhook(self, name="hook.example.dev", path=None, **fields):
        """An entry of `webhooks`, for ConfigMaps unless it says otherwise."""
        config = self.client_config
        if path is not None:
            config = {**config, "url": f"https://127.0.0.1:{self.port}{path}"}
        rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        return {
            "name": name,
            "clientConfig": config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "timeoutSeconds": 30,
            **fields,
        }


def configuration(*webhooks, name="it"):
    """A configuration of either kind."""
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


class AdmittingApi(Api):
    """The server, with the webhook."""

    def __init__(self, webhook, **parts):
        self.webhook = webhook
        super().__init__(clock=SystemClock(), **parts)

    async def mutating(self, configured="it", /, **fields):
        """Have the webhook called before objects are validated."""
        return await self.made(MUTATING, configuration(self.webhook.webhook(**fields), name=configured))

    async def validating(self, configured="it", /, **fields):
        """Have the webhook called after objects are validated."""
        return await self.made(VALIDATING, configuration(self.webhook.webhook(**fields), name=configured))


@contextlib.asynccontextmanager
async def admitting(certificates, *, patience=PATIENCE, **parts):
    """A server and a webhook."""
    async with AdmissionWebhook(certificates) as webhook:
        api = AdmittingApi(webhook, **parts)
        async with asyncio.timeout(patience):
            await api.start()
            try:
                yield api, webhook
            finally:
                await api.stop()


def admitted(test):
    """Run `test(api, webhook, …)` against a fresh server and webhook; the test needs the fixture `certificates`."""

    @functools.wraps(test)
    def run(certificates, **arguments):
        async def body():
            async with admitting(certificates) as (api, webhook):
                await test(api, webhook, **arguments)

        asyncio.run(body())
        gc.collect()  # What was not closed warns, and warnings are errors.

    parameters = list(inspect.signature(test).parameters.values())[2:]
    own = inspect.Parameter("certificates", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([own, *parameters])
    return run


async def on_kapi(certificates, work):
    """The result of `work(send, webhook)` on a server without a socket; `send` is a function that sends a request."""
    async with admitting(certificates, patience=600) as (api, webhook):

        async def send(method, path, body, media):
            headers = {"content-type": media, "user-agent": "programs/1"}
            answer = await api.request(method, path, b"" if body is None else body, headers=headers)
            return answer.status, answer.json, answer.warnings

        return await work(send, webhook)
