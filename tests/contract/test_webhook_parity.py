"""Admission webhooks compared with a real kube-apiserver, from the folder that KUBEBUILDER_ASSETS names.

The random programs of `webhook_programs` are sent to both: verdicts, messages, warnings, objects and the reviews that
webhooks get must be the same. With KAPI_RECORD=1 the outcomes of the first programs are written to
`tests/recordings/webhooks.json`, which tests without a kube-apiserver use.
"""

import asyncio
import json
import os
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml
from yarl import URL

from admission_webhook import AdmissionWebhook, on_kapi
from kube_apiserver_plane import kube_apiserver_plane
from webhook_programs import PROGRAMS, RECORDED, outcomes
from webhook_server import Certificates

pytestmark = pytest.mark.timeout(900)  # All programs are run before the first test.
RECORDING = Path(__file__).parents[1] / "recordings" / "webhooks.json"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory, certificates):
    with kube_apiserver_plane(tmp_path_factory.mktemp("kube-apiserver")) as config:
        yield asyncio.run(_on_kube_apiserver(yaml.safe_load(config.read_text()), certificates))


async def _on_kube_apiserver(config, certificates):
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    agent = {"User-Agent": "programs/1"}
    async with AdmissionWebhook(certificates) as webhook, aiohttp.ClientSession(headers=agent) as session:

        async def send(method, path, body, media):
            data = None if body is None else json.dumps(body)
            url = f"{cluster['server']}{path}"
            headers = {"Content-Type": media}
            async with session.request(
                method, URL(url, encoded=True), data=data, headers=headers, ssl=context
            ) as answer:
                warnings = [
                    one.removeprefix('299 - "').removesuffix('"') for one in answer.headers.getall("Warning", [])
                ]
                text = await answer.text()
                return answer.status, json.loads(text) if text.startswith("{") else {}, warnings

        return await outcomes(send, webhook, PROGRAMS.values())


@pytest.fixture(scope="module")
def ours(certificates):
    return asyncio.run(on_kapi(certificates, lambda send, webhook: outcomes(send, webhook, PROGRAMS.values())))


@pytest.mark.skipif(bool(os.environ.get("KAPI_RECORD")), reason="the outcomes are recorded")
@pytest.mark.parametrize("number", PROGRAMS)
def test_both_servers_treat_webhooks_alike(theirs, ours, number):
    for step, their, our in zip(PROGRAMS[number].steps, theirs[number], ours[number], strict=True):
        assert our._asdict() == their._asdict(), step


def test_kube_apiserver_does_as_recorded(theirs):
    summaries = {str(number): [one.summary() for one in theirs[number]] for number in range(RECORDED)}
    if os.environ.get("KAPI_RECORD"):
        lines = [f"{json.dumps(name)}: [\n{_lines(found)}\n]" for name, found in summaries.items()]
        RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    assert summaries == json.loads(RECORDING.read_text())


def _lines(summaries):
    return ",\n".join(json.dumps(one) for one in summaries)
