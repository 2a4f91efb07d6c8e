"""Hostile webhooks, and hostile answers to their callers: nothing is followed, believed beyond bounds, or leaked."""

import asyncio
import base64

import pytest

from admission_webhook import MUTATING, admitted, allow, allowing, configuration, patch_of, patching
from api_client import CM, NS, cm
from kapi.base.http import OutboundError
from kapi.controlplane.options import OptionError, parse_service_overrides
from kapi.server.serviceaddress import ServiceReference
from kapi.server.webhooks.destination import destination
from webhook_server import Certificates, Hangup, Reply

SECRET = "hunter2-is-secret"
SECRETS = f"{NS}/default/secrets"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@admitted
async def test_redirects_are_not_followed(api, webhook, status):
    webhook.paths["/elsewhere"] = allowing()
    webhook.answer = lambda call: Reply(b"", status, location=f"https://127.0.0.1:{webhook.port}/elsewhere")
    await api.validating()
    answer = await api.post(CM, cm("a"))
    assert answer.status == 500
    assert f"status code {status}" in answer.message
    assert webhook.called_paths == ["/admit"]


@admitted
async def test_a_huge_answer_is_not_read_to_its_end(api, webhook):
    def endless(call):
        length = 1 << 40
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        raise Hangup(head.encode() + b" " * (9 * 1024 * 1024))

    webhook.answer = endless
    await api.validating()
    answer = await api.post(CM, cm("a"))
    assert answer.message.endswith("failed to call webhook: the answer is larger than 8388608 bytes")


@admitted
async def test_a_patch_with_too_many_operations_is_refused(api, webhook):
    webhook.answer = patching(*[{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001)
    await api.mutating()
    answer = await api.post(CM, cm("a"))
    assert "The allowed maximum operations in a JSON patch is 10000, got 10001" in answer.message


@admitted
async def test_a_patch_may_not_make_an_object_that_is_too_large_or_too_deep(api, webhook):
    await api.mutating()
    webhook.answer = patching({"op": "add", "path": "/data", "value": {"a": "x" * 2_000_000}})
    assert (await api.post(CM, cm("a"))).status in (413, 422)
    deep = b'[{"op":"add","path":"/foo","value":' + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}]"
    webhook.answer = allowing(patchType="JSONPatch", patch=base64.b64encode(deep).decode())
    assert (await api.post(CM, cm("b"))).status == 500
    assert (await api.get(CM)).json["items"] == []


@admitted
async def test_a_certificate_of_another_authority_is_refused(api, webhook, tmp_path):
    other = Certificates(tmp_path)
    entry = webhook.webhook()
    entry["clientConfig"]["caBundle"] = other.bundle
    await api.made(MUTATING, configuration(entry))
    answer = await api.post(CM, cm("a"))
    assert answer.message.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")
    assert webhook.calls == []


@admitted
async def test_a_certificate_for_another_name_is_refused(api, webhook):
    entry = webhook.webhook()
    service = {"name": "hook", "namespace": "default", "path": "/admit", "port": webhook.port}
    entry["clientConfig"] = {"service": service, "caBundle": webhook.certificates.bundle}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await api.made(f"{NS}/default/services", {"metadata": {"name": "hook"}, "spec": spec})
    await api.made(MUTATING, configuration(entry))
    answer = await api.post(CM, cm("a"))
    assert answer.message.endswith("certificate is valid for localhost, not hook.default.svc")
    assert webhook.calls == []


@admitted
async def test_objects_and_answers_are_not_logged(api, webhook, capsys, caplog):
    body = {"metadata": {"name": "s"}, "stringData": {"password": SECRET}}
    await api.mutating(rules=[RULE])
    encoded = base64.b64encode(SECRET.encode()).decode()
    for script in (
        lambda call: Reply(call.body, 500, content_type="text/plain"),
        lambda call: Reply(b"{" + call.body),
        lambda call: Reply(allow(call, allowed=False, status={"message": SECRET})),
        lambda call: Reply({**allow(call), "response": {"uid": SECRET}}),
        allowing(**patch_of({"op": "add", "path": "/nowhere/x", "value": SECRET})),
    ):
        webhook.answer = script
        assert (await api.post(SECRETS, body)).status >= 400
    captured = capsys.readouterr()
    for text in (captured.out, captured.err, caplog.text):
        assert SECRET not in text
        assert encoded not in text


@admitted
async def test_a_request_that_is_abandoned_during_a_call_stores_nothing(api, webhook):
    begun = asyncio.Event()

    async def hang(call):
        begun.set()
        await asyncio.Event().wait()

    webhook.answer = hang
    await api.validating()
    request = asyncio.ensure_future(api.post(CM, cm("a")))
    await begun.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    assert (await api.get(CM)).json["items"] == []


# -- Services ---------------------------------------------------------------------------------------------------------


class Objects:
    """A lookup that knows a Service and its slices."""

    def __init__(self, *addresses, external_name=""):
        ports = [{"port": 443, "targetPort": 9443}]
        self.service = {"spec": {"ports": ports}}
        if external_name:
            self.service = {"spec": {"type": "ExternalName", "externalName": external_name}}
        self.slice = {
            "metadata": {"labels": {"kubernetes.io/service-name": "hook"}},
            "ports": [{"port": 9443}],
            "endpoints": [{"addresses": [address]} for address in addresses],
        }

    def get(self, resource, namespace, name):
        return self.service if resource == "services" else None

    def list(self, resource, namespace="", *, ending=""):
        return [self.slice]


CONFIG = {"service": {"namespace": "apps", "name": "hook"}}
REACHABLE = "10.0.0.7"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::ffff:127.0.0.1"],
)
def test_endpoints_on_this_machine_and_link_local_ones_are_not_called(address):
    assert destination(CONFIG, Objects(address, REACHABLE), seconds=1).address == (REACHABLE, 9443)
    with pytest.raises(OutboundError, match='no endpoints available for service "hook"'):
        destination(CONFIG, Objects(address), seconds=1)


def test_an_external_name_that_is_a_link_local_address_is_not_called():
    with pytest.raises(OutboundError, match='no endpoints available for service "hook"'):
        destination(CONFIG, Objects(external_name="169.254.169.254"), seconds=1)


def test_an_override_is_called_instead_of_the_service():
    overrides = parse_service_overrides(["apps/hook=127.0.0.1:9443", "apps/hook:8443=[::1]:9444"])
    assert destination(CONFIG, Objects(REACHABLE), seconds=1, overrides=overrides).address == ("127.0.0.1", 9443)
    other = {"service": {**CONFIG["service"], "port": 8443}}
    assert destination(other, Objects(REACHABLE), seconds=1, overrides=overrides).address == ("::1", 9444)
    endpoint = destination(CONFIG, Objects(), seconds=1, overrides=overrides)
    assert endpoint.url == "https://hook.apps.svc:443/?timeout=1s"


@pytest.mark.parametrize(
    "text",
    [
        "apps/hook",
        "apps=127.0.0.1:1",
        "/hook=127.0.0.1:1",
        "apps/hook=10.0.0.1:1",
        "apps/hook=example.dev:1",
        "apps/hook=127.0.0.1",
        "apps/hook=127.0.0.1:0",
        "apps/hook:x=127.0.0.1:1",
        "apps/hook=127.0.0.1:99999",
    ],
)
def test_overrides_are_loopback_addresses_only(text):
    with pytest.raises(OptionError, match="--service-override"):
        parse_service_overrides([text])


def test_an_override_without_a_port_is_for_every_port():
    assert parse_service_overrides(["a/b=localhost:1"]) == {ServiceReference("a", "b"): ("localhost", 1)}
