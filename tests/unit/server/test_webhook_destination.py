"""Where webhooks are: URLs as they are written, services through the objects of the control plane.

The messages are those a Kubernetes 1.36 server answered.
"""

import asyncio
import base64

import pytest

from kapi.base.http import Endpoint, Outbound, OutboundError
from kapi.server.serviceaddress import SERVICE_LABEL, SLICES, ServiceReference
from kapi.server.webhooks.destination import destination
from webhook_server import Certificates, Reply, Webhook


class Objects:
    """Objects by resource, as rules look them up."""

    def __init__(self, **objects):
        self._objects = {SLICES if key == "slices" else key: value for key, value in objects.items()}

    def get(self, resource, namespace, name):
        for obj in self.list(resource, namespace):
            if obj["metadata"]["name"] == name:
                return obj
        return None

    def list(self, resource, namespace="", *, ending=""):
        found = self._objects.get(resource, ())
        return (obj for obj in found if obj["metadata"]["namespace"] == namespace)


def named(name, namespace="apps", **fields):
    labels = fields.pop("labels", {})
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, **fields}


def service(name="hook", *ports, **spec):
    ports = [{"port": port, "name": port_name} if port_name else {"port": port} for port, port_name in ports]
    return named(name, spec={"type": "ClusterIP", "ports": ports or [{"port": 443}], **spec})


def endpoint_slice(*endpoints, ports=((8443, ""),), of="hook", namespace="apps"):
    return named(
        f"{of}-1",
        namespace,
        labels={SERVICE_LABEL: of},
        ports=[{"port": port, "name": name} for port, name in ports],
        endpoints=[
            {"addresses": [address], "conditions": {} if ready is None else {"ready": ready}}
            for address, ready in endpoints
        ],
    )


def find(objects=None, *, seconds=30, bundle=None, overrides=None, **reference):
    reference = {"name": "hook", "namespace": "apps", **reference}
    config = {"service": reference, **({"caBundle": bundle} if bundle else {})}
    return destination(config, objects or Objects(), seconds=seconds, overrides=overrides)


def failure(objects=None, **reference):
    with pytest.raises(OutboundError) as caught:
        find(objects, **reference)
    return str(caught.value)


# -- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("https://a.example:9443/convert", "https://a.example:9443/convert?timeout=30s"),
        ("https://a.example/deep/er/", "https://a.example/deep/er?timeout=30s"),
        ("https://a.example//a/../validate", "https://a.example/validate?timeout=30s"),
        ("https://a.example", "https://a.example/?timeout=30s"),
        ("https://[::1]:9443/x", "https://[::1]:9443/x?timeout=30s"),
    ],
)
def test_a_url_is_called_with_the_timeout_parameter(url, called):
    assert destination({"url": url}, Objects(), seconds=30) == Endpoint(called)


def test_the_timeout_parameter_is_the_timeout_of_the_call():
    assert destination({"url": "https://a.example/"}, Objects(), seconds=2.5).url == "https://a.example/?timeout=2.5s"


def test_the_bundle_is_decoded():
    config = {"url": "https://a.example/", "caBundle": base64.b64encode(b"PEM").decode()}
    assert destination(config, Objects(), seconds=30).authority == b"PEM"


@pytest.mark.parametrize("blank", ["", base64.b64encode(b" \n\t ").decode(), None])
def test_a_blank_ca_bundle_is_none(blank):
    assert destination({"url": "https://a.example/", "caBundle": blank}, Objects(), seconds=30).authority == b""


def test_a_bundle_that_is_not_base64_is_an_error():
    with pytest.raises(OutboundError, match="unable to load root certificates"):
        destination({"url": "https://a.example/", "caBundle": "a"}, Objects(), seconds=30)


# -- services ---------------------------------------------------------------------------------------------------------


def test_a_service_is_called_by_its_name_at_a_ready_endpoint():
    objects = Objects(services=[service()], slices=[endpoint_slice(("10.0.0.7", True))])
    expected = Endpoint("https://hook.apps.svc:443/?timeout=30s", b"CA", ("10.0.0.7", 8443))
    assert find(objects, bundle=base64.b64encode(b"CA").decode()) == expected


@pytest.mark.parametrize(
    ("path", "called"), [("/convert", "/convert"), ("/a/b/", "/a/b"), ("plain", "/plain"), ("", "/"), (None, "/")]
)
def test_the_path_of_a_service_is_joined_to_its_name(path, called):
    objects = Objects(services=[service()], slices=[endpoint_slice(("10.0.0.7", True))])
    assert find(objects, path=path).url == f"https://hook.apps.svc:443{called}?timeout=30s"


def test_the_port_is_one_of_the_service_and_leads_to_the_endpoints_port_of_its_name():
    objects = Objects(
        services=[service("hook", (80, "http"), (8080, "hooks"))],
        slices=[endpoint_slice(("10.0.0.7", True), ports=((1, "http"), (2, "hooks")))],
    )
    found = find(objects, port=8080)
    assert (found.url, found.address) == ("https://hook.apps.svc:8080/?timeout=30s", ("10.0.0.7", 2))


def test_endpoints_that_are_not_ready_are_skipped():
    endpoints = [("10.0.0.1", False), ("10.0.0.2", None), ("10.0.0.3", False)]
    objects = Objects(services=[service()], slices=[endpoint_slice(*endpoints)])
    assert {find(objects).address for _ in range(20)} == {("10.0.0.2", 8443)}


def test_all_ready_endpoints_get_their_share():
    slices = [endpoint_slice(("10.0.0.1", True), ("10.0.0.2", True)), endpoint_slice(("10.0.0.3", True))]
    objects = Objects(services=[service()], slices=slices)
    found = {find(objects).address[0] for _ in range(500)}
    assert found == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}


def test_endpoint_slices_of_other_services_are_ignored():
    strangers = [endpoint_slice(("10.0.0.1", True), of="other"), endpoint_slice(("10.0.0.1", True), namespace="b")]
    objects = Objects(services=[service()], slices=strangers)
    assert 'no endpoints available for service "hook"' in failure(objects)


def test_a_service_with_endpoints_and_no_slices_is_found_through_those():
    subsets = [
        {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1, "name": "other"}]},
        {"addresses": [{"ip": "10.0.0.9"}], "notReadyAddresses": [{"ip": "10.0.0.8"}], "ports": [{"port": 9443}]},
    ]
    objects = Objects(services=[service()], endpoints=[named("hook", subsets=subsets)])
    assert find(objects).address == ("10.0.0.9", 9443)


def test_endpoints_are_not_used_when_there_are_slices():
    objects = Objects(
        services=[service()],
        slices=[endpoint_slice(("10.0.0.7", False))],
        endpoints=[named("hook", subsets=[{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"port": 9443}]}])],
    )
    assert "no endpoints available" in failure(objects)


def test_an_external_name_is_the_host_at_the_requested_port():
    objects = Objects(services=[service(type="ExternalName", externalName="hooks.example", ports=None)])
    found = find(objects, port=9443)
    assert (found.url, found.address) == ("https://hook.apps.svc:9443/?timeout=30s", ("hooks.example", 9443))


@pytest.mark.parametrize(
    ("objects", "port", "why"),
    [
        pytest.param(Objects(), None, 'service "hook" not found', id="no-service"),
        pytest.param(
            Objects(services=[service("hook", (8443, "https"))]),
            None,
            'no service port 443 found for service "hook"',
            id="no-such-port",
        ),
        pytest.param(
            Objects(services=[service()]), None, 'no endpoints available for service "hook"', id="no-endpoints"
        ),
        pytest.param(
            Objects(services=[service("hook", (443, "a"))], slices=[endpoint_slice(("10.0.0.1", True))]),
            443,
            'no endpoints available for service "hook"',
            id="no-endpoints-at-the-port",
        ),
    ],
)
def test_a_service_that_cannot_be_resolved_is_reported_by_name(objects, port, why):
    assert failure(objects, port=port, path="/x/y") == f'Post "https://hook.apps.svc:443/x/y?timeout=30s": {why}'


# -- for real ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def called(certificates, *names, objects_of, reference=lambda port: {}, overrides=lambda port: {}):
    """Call a server with these names through the objects `objects_of(port)`; its calls, or the failure."""

    async def main():
        outbound = Outbound()
        async with Webhook(certificates, *names, script=lambda call: Reply(b"{}")) as webhook:
            try:
                where = find(
                    objects_of(webhook.port),
                    bundle=certificates.bundle,
                    overrides=overrides(webhook.port),
                    **reference(webhook.port),
                )
                await outbound.post(where, b"{}", seconds=20, limit=100)
            except OutboundError as error:
                return str(error)
            finally:
                await outbound.close()
            return [(call.target, call.headers["host"]) for call in webhook.calls]

    return asyncio.run(main())


def no_objects(port):
    return Objects()


def on_loopback(port):
    return {ServiceReference("apps", "hook"): ("127.0.0.1", port)}


def by_external_name(port):
    return Objects(services=[service(type="ExternalName", externalName="localhost")])


def test_an_overridden_service_is_called_under_its_name(certificates):
    calls = called(certificates, "hook.apps.svc", objects_of=no_objects, overrides=on_loopback)
    assert calls == [("/?timeout=30s", "hook.apps.svc:443")]


def test_an_external_service_on_loopback_is_called_under_the_services_name(certificates):
    def reference(port):
        return {"port": port, "path": "/x"}

    (call,) = called(certificates, "hook.apps.svc", objects_of=by_external_name, reference=reference)
    assert call[0] == "/x?timeout=30s"
    assert call[1].startswith("hook.apps.svc:")


def test_the_certificate_of_a_service_must_be_for_its_name(certificates):
    message = called(certificates, "127.0.0.1", "localhost", objects_of=no_objects, overrides=on_loopback)
    assert message == (
        'Post "https://hook.apps.svc:443/?timeout=30s": '
        "tls: failed to verify certificate: x509: certificate is valid for localhost, not hook.apps.svc"
    )
