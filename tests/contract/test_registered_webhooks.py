"""Webhooks that register themselves, and authorities that are put into configurations: on Kapi and on a kube-apiserver.

The kube-apiserver is that of the folder that KUBEBUILDER_ASSETS names.
"""

import asyncio
import shutil

import pytest

from kapi import Client, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap, Secret
from kapi.api.errors import ApiError
from kapi.base.tls import Authority, KeyPair
from kapi.controller.webhook import (
    AdmissionRequest,
    Denied,
    Match,
    Mounted,
    Registration,
    SelfSigned,
    WebhookServer,
    inject_ca,
)
from kube_apiserver_plane import kube_apiserver_plane
from live_plane import live_plane

KIND = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
MUTATING = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
LABELLED = {"webhooks": "called"}
"""Other objects, which servers write on their own account, are left alone."""
MATCH = Match(operations=["CREATE", "DELETE"], object_selector={"matchLabels": LABELLED})
UNKNOWN = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@pytest.fixture(scope="module", params=[live_plane, kube_apiserver_plane], ids=["kapi", "kube-apiserver"])
def kubeconfig(tmp_path_factory, request):
    with request.param(tmp_path_factory.mktemp("plane")) as path:
        yield path


def with_client(kubeconfig, test):
    """Run a test with a client."""

    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            await test(client)

    asyncio.run(main())


def object_of(kind, name, **fields):
    return kind(metadata=ObjectMeta(name=name, namespace="default", labels=LABELLED), **fields)


async def outcome(action):
    """The object that a request returns, or the message that it is refused with."""
    try:
        return await action
    except ApiError as error:
        return error.message


async def until(action, condition):
    """Repeat a request until its outcome is as wanted: kube-apiserver follows configurations a moment later."""
    while not condition(found := await outcome(action())):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return found


class Serving:
    """A webhook server while a block runs: it labels and refuses ConfigMaps."""

    def __init__(self, certificates, registration=None):
        self.server = WebhookServer(
            "127.0.0.1", 0, certificates=certificates, registration=registration, refresh_seconds=0.05
        )

        @self.server.mutating(ConfigMap, match=Match(operations=["CREATE"], object_selector=MATCH.object_selector))
        def label(configmap: ConfigMap, request: AdmissionRequest[ConfigMap]) -> None:
            configmap.data = {**(configmap.data or {}), "by": request.user.username}

        @self.server.validating(ConfigMap, match=MATCH)
        def check(request: AdmissionRequest[ConfigMap]) -> None:
            if "protected" in (request.subject.data or {}):
                raise Denied(f"{request.operation}: it is protected", code=409)

    async def __aenter__(self):
        self._running = asyncio.ensure_future(self.server.run())
        await self.server.wait_started()
        return self.server

    async def __aexit__(self, *_):
        self.server.stop()
        await self._running


def test_a_server_registers_itself_and_deletes_its_configurations(kubeconfig):
    async def test(client):
        registration = Registration(client, "self", url="https://127.0.0.1:0", removes=True)
        async with Serving(SelfSigned(["127.0.0.1"]), registration) as server:
            await server.wait_registered()

            async def create(name, data=None):
                return await client.create(object_of(ConfigMap, name, data=data), dry_run=True)

            made = await until(lambda: create("a"), lambda found: not isinstance(found, str) and found.data)
            assert set(made.data) == {"by"}
            refused = await until(lambda: create("b", {"protected": "yes"}), lambda found: isinstance(found, str))
            assert refused == (
                'admission webhook "validate.v1.configmap.core" denied the request: CREATE: it is protected'
            )
        assert await client.find(KIND, "self") is None
        assert await client.find(MUTATING, "self") is None

    with_client(kubeconfig, test)


def issue(folder, number):
    """A new authority and a certificate of it, as a mounted Secret has them."""
    made = folder / str(number)
    authority = Authority.ensure(KeyPair(made / "ca.crt", made / "ca.key"), f"authority-{number}")
    authority.ensure_server(KeyPair(made / "tls.crt", made / "tls.key"), ("127.0.0.1",))
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / "mounted").mkdir(exist_ok=True)
        shutil.copy(made / name, folder / "mounted" / name)


def test_a_new_authority_is_registered(kubeconfig, tmp_path):
    issue(tmp_path, 1)

    async def test(client):
        certificates = Mounted(tmp_path / "mounted")
        registration = Registration(client, "renewed", url="https://127.0.0.1:0", removes=True)
        async with Serving(certificates, registration) as server:
            await server.wait_registered()
            before = certificates.ca_bundle()

            async def create():
                return await client.create(object_of(ConfigMap, "a"), dry_run=True)

            def is_called(found):
                return not isinstance(found, str) and bool(found.data)

            await until(create, is_called)
            issue(tmp_path, 2)

            async def bundle():
                return (await client.get(MUTATING, "renewed"))["webhooks"][0]["clientConfig"]["caBundle"]

            assert await until(bundle, lambda found: found != before) == certificates.ca_bundle()
            await until(create, is_called)

    with_client(kubeconfig, test)


# -- the authority is put there by another program, as the cainjector of cert-manager does it ------------------------


def manifest(name, port):
    """A configuration as people write it for cert-manager: without a bundle, which an annotation asks for."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
    return {
        "apiVersion": KIND[0],
        "kind": KIND[1],
        "metadata": {"name": name, "annotations": {"cert-manager.io/inject-ca-from": "default/serving"}},
        "webhooks": [
            {
                "name": "secrets.example.dev",
                "clientConfig": {"url": f"https://127.0.0.1:{port}/secrets"},
                "rules": [rule],
                "objectSelector": {"matchLabels": LABELLED},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def by_update(client, name, bundle):
    await inject_ca(client, bundle, validating=[name])


async def by_apply(client, name, bundle):
    webhooks = [{"name": "secrets.example.dev", "clientConfig": {"caBundle": bundle}}]
    partial = {"apiVersion": KIND[0], "kind": KIND[1], "metadata": {"name": name}, "webhooks": webhooks}
    await client.apply(partial, field_manager="cert-manager-cainjector", force=True)


async def by_json_patch(client, name, bundle):
    operation = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}
    await client.patch(KIND, [operation], name=name, kind="json")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["127.0.0.2", "::1"], "certificate is valid for 127.0.0.2, ::1, not 127.0.0.1"),
        (["a.example"], "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
    ],
)
def test_a_certificate_for_another_name_is_refused_in_the_same_words(kubeconfig, names, reason):
    async def test(client):
        server = WebhookServer("127.0.0.1", 0, certificates=SelfSigned(names))
        running = asyncio.ensure_future(server.run())
        await server.wait_started()
        made = manifest("misnamed", server.port)
        made["webhooks"][0]["clientConfig"]["caBundle"] = server.ca_bundle()

        async def create():
            return await client.create(object_of(Secret, "s"), dry_run=True)

        await client.create(made)
        refused = await until(create, lambda found: isinstance(found, str))
        assert refused.endswith(f'/secrets?timeout=10s": tls: failed to verify certificate: x509: {reason}')
        await client.delete(KIND, "misnamed")
        await until(create, lambda found: not isinstance(found, str))
        server.stop()
        await running

    with_client(kubeconfig, test)


@pytest.mark.parametrize("inject", [by_update, by_apply, by_json_patch])
def test_an_authority_that_is_injected_is_trusted(kubeconfig, inject):
    async def test(client):
        name = inject.__name__.replace("_", "-")
        server = WebhookServer("127.0.0.1", 0, certificates=SelfSigned(["127.0.0.1"]))

        @server.validating("/secrets")
        def refuse(request: AdmissionRequest[dict]) -> None:
            raise Denied("no secrets")

        running = asyncio.ensure_future(server.run())
        await server.wait_started()

        async def create():
            return await client.create(object_of(Secret, "s"), dry_run=True)

        try:
            await client.create(manifest(name, server.port))
            untrusted = await until(create, lambda found: isinstance(found, str))
            url = f"https://127.0.0.1:{server.port}/secrets?timeout=10s"
            failed = 'failed calling webhook "secrets.example.dev": failed to call webhook: '
            assert untrusted == f'Internal error occurred: {failed}Post "{url}": {UNKNOWN}'
            await inject(client, name, server.ca_bundle())
            denied = 'admission webhook "secrets.example.dev" denied the request: no secrets'
            assert await until(create, lambda found: found != untrusted) == denied
            kept = await client.get(KIND, name)
            assert kept["webhooks"][0]["clientConfig"]["url"] == f"https://127.0.0.1:{server.port}/secrets"
        finally:
            await client.delete(KIND, name)
            await until(create, lambda found: not isinstance(found, str))
            server.stop()
            await running

    with_client(kubeconfig, test)
