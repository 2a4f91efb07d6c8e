"""The answers of admission webhooks on a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

What is expected of Kapi (`webhook_answers`) is what kube-apiserver does: word for word, but for the address of the
client in the text of a reset connection.
"""

import asyncio
import json
import re
import ssl

import aiohttp
import pytest
import yaml

from admission_webhook import MUTATING, VALIDATING, AdmissionWebhook, allowing, configuration, denying
from kube_apiserver_plane import kube_apiserver_plane
from webhook_answers import FAILURES, HANGS, MAY_NOT_PATCH, PATCHES, REFUSALS, UNREADABLE
from webhook_server import Certificates

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LABELS = {"webhooks": "called"}
RUNS = {
    "unreadable": (MUTATING, UNREADABLE, 30),
    "failures": (VALIDATING, FAILURES, 30),
    "refusals": (MUTATING, REFUSALS, 30),
    "refusals of validating webhooks": (VALIDATING, REFUSALS, 30),
    "patches": (MUTATING, PATCHES, 30),
    "patches of validating webhooks": (VALIDATING, MAY_NOT_PATCH, 30),
    "hangs": (MUTATING, HANGS, 1),
}
"""Configuration, cases, and the timeout of the webhook in seconds."""
OTHER = {
    "missing parent": "the labels by which the webhooks of this test are called are there",
    "no HTTP code": "kube-apiserver cannot write such a status, and closes the connection",
}
"""Cases that cannot be compared, and why."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The outcomes on kube-apiserver, by run and case."""
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    with kube_apiserver_plane(tmp_path_factory.mktemp("kube-apiserver")) as config:
        return asyncio.run(_outcomes(yaml.safe_load(config.read_text()), certificates))


class Client:
    """Requests of the administrator about ConfigMaps."""

    def __init__(self, session, config, webhook):
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._session, self._server, self._webhook = session, cluster["server"], webhook
        self._context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._context.load_cert_chain(user["client-certificate"], user["client-key"])

    async def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        url = f"{self._server}{path}"
        async with self._session.request(method, url, data=data, headers=headers, ssl=self._context) as answer:
            return answer.status, await answer.json()

    async def create(self):
        """Create an object, and delete it if that succeeds."""
        body = {"metadata": {"name": "a", "labels": LABELS}, "data": {"a": "b"}}
        status, answer = await self.send("POST", CONFIGMAPS, body)
        if status == 201:
            self._webhook.answer = allowing()
            assert (await self.send("DELETE", f"{CONFIGMAPS}/a"))[0] == 200
        return status, answer

    async def until(self, *, called):
        """Wait until the webhook is called, or not any more: kube-apiserver follows its own writes later."""
        while True:
            self._webhook.answer = denying(code=418, message="called")
            if ((await self.create())[0] == 418) is called:
                return
            await asyncio.sleep(0.05)

    async def outcome(self, script):
        """Code and message of the answer to a create, as `webhook_answers` has them."""
        self._webhook.answer = script
        status, body = await self.create()
        if status == 201:
            return 201, ""
        message = body["message"]
        if body.get("reason") == "InternalError":
            message = f"500 {message.removeprefix('Internal error occurred: ')}"
        message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", message)
        message = re.sub(r"read tcp 127.0.0.1:[0-9]+->", "read tcp ", message)
        return status, message.replace(self._webhook.url, "URL").replace(str(self._webhook.port), "PORT")


async def _outcomes(config, certificates):
    found = {}
    async with AdmissionWebhook(certificates) as webhook, aiohttp.ClientSession() as session:
        client = Client(session, config, webhook)
        for name, (path, cases, seconds) in RUNS.items():
            selector = {"matchLabels": LABELS}
            entry = webhook.webhook(timeoutSeconds=seconds, objectSelector=selector)
            assert (await client.send("POST", path, configuration(entry)))[0] == 201
            await client.until(called=True)
            compared = {case: script for case, (script, _, _) in cases.items() if case not in OTHER}
            found[name] = {case: await client.outcome(script) for case, script in compared.items()}
            assert (await client.send("DELETE", f"{path}/it"))[0] == 200
            await client.until(called=False)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_kube_apiserver_says_what_is_expected_of_kapi(found, name):
    cases = RUNS[name][1]
    assert found[name] == {case: (code, told) for case, (_, code, told) in cases.items() if case not in OTHER}
