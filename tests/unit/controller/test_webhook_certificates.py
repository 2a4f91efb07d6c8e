"""Certificates of a webhook server: made, renewed, taken up at work, and told to API servers."""

import asyncio
import base64
import datetime as dt
import gc
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from webhook_rig import running

import kapi
from kapi import Client, NotFound
from kapi.base.clock import ManualClock
from kapi.controller.webhook import Mounted, SelfSigned, WebhookServer, inject_ca
from kapi.controller.webhook.injection import MUTATING, VALIDATING
from live_plane import live_plane


def issued(certificates):
    return x509.load_pem_x509_certificate(certificates.files.certificate.read_bytes())


async def shown(server, authority):
    """The serial number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    serial = int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)
    writer.close()
    await writer.wait_closed()
    return serial


def test_certificates_are_made_once_and_kept_in_their_directory(tmp_path):
    first = SelfSigned(["127.0.0.1", "hooks.default.svc"], directory=tmp_path)
    bundle = first.ca_bundle()
    second = SelfSigned(["127.0.0.1", "hooks.default.svc"], directory=tmp_path)
    serial = issued(first).serial_number
    second.ensure()
    assert (second.ca_bundle(), issued(second).serial_number) == (bundle, serial)
    names = issued(second).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hooks.default.svc"]


def test_a_certificate_is_renewed_before_its_end_by_the_same_authority(tmp_path):
    clock = ManualClock(dt.datetime.now(dt.UTC))
    certificates = SelfSigned(["127.0.0.1"], directory=tmp_path, clock=clock)
    bundle, first = certificates.ca_bundle(), issued(certificates)
    clock.advance(330 * 86400)
    certificates.ensure()
    assert issued(certificates).serial_number == first.serial_number
    clock.advance(10 * 86400)
    certificates.ensure()
    assert issued(certificates).serial_number != first.serial_number
    assert certificates.ca_bundle() == bundle


def test_for_a_service_the_names_are_those_api_servers_use(tmp_path):
    certificates = SelfSigned.for_service("hooks", "prod", directory=tmp_path)
    certificates.ensure()
    names = issued(certificates).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hooks.prod.svc" in names.get_values_for_type(x509.DNSName)


def test_without_a_directory_nothing_is_left_behind():
    certificates = SelfSigned(["127.0.0.1"])
    certificates.ensure()
    directory = certificates.files.key.parent
    assert directory.stat().st_mode & 0o077 == 0
    del certificates
    gc.collect()
    assert not directory.exists()


def test_a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(tmp_path):
    made, mounted = tmp_path / "made", tmp_path / "mounted"

    def issue():
        certificates = SelfSigned(["127.0.0.1"], directory=made)
        certificates.files.certificate.unlink(missing_ok=True)
        certificates.ensure()
        shutil.copytree(made, mounted, dirs_exist_ok=True)
        return issued(certificates).serial_number

    class Looked(Mounted):
        """Tells when the server looks."""

        def __init__(self, directory):
            super().__init__(directory)
            self.times = asyncio.Semaphore(0)
            self._loop = asyncio.get_running_loop()

        def ensure(self):
            self._loop.call_soon_threadsafe(self.times.release)

    async def looked(certificates):
        """Until the server has looked, from the beginning to the end, at what is there now."""
        while not certificates.times.locked():
            await certificates.times.acquire()
        # The first may be news of a look that began before; the third begins when the second is over.
        for _ in range(3):
            await certificates.times.acquire()

    async def main():
        first = issue()
        certificates = Looked(mounted)
        bundle = certificates.ca_bundle()
        async with (
            running(WebhookServer("127.0.0.1", 0, certificates=certificates, refresh_seconds=0.01)) as server,
            asyncio.timeout(30),
        ):
            assert await shown(server, bundle) == first
            (mounted / "tls.crt").write_bytes(b"half of a change")
            await looked(certificates)
            assert await shown(server, bundle) == first
            second = issue()
            await looked(certificates)
            assert await shown(server, bundle) == second != first

    asyncio.run(main())


def configuration(kind, name):
    hooks = [
        {
            "name": f"{part}.hooks.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:9/{part}"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for part in ("one", "two")
    ]
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}, "webhooks": hooks}


def test_the_bundle_is_put_into_every_webhook_of_a_configuration_and_only_once(tmp_path):
    bundle = SelfSigned(["127.0.0.1"], directory=tmp_path / "hooks").ca_bundle()

    async def main(kubeconfig):
        async with Client.connect(kubeconfig=kubeconfig) as client, asyncio.timeout(60):
            for kind in (VALIDATING, MUTATING):
                await client.create(configuration(kind, "mine"))
                await client.create(configuration(kind, "another"))
            await inject_ca(client, bundle, validating=["mine"], mutating=["mine"])
            for kind in (VALIDATING, MUTATING):
                mine = await client.get(kind, "mine")
                assert [hook["clientConfig"]["caBundle"] for hook in mine["webhooks"]] == [bundle, bundle]
                await inject_ca(client, bundle, **{"validating" if kind is VALIDATING else "mutating": ["mine"]})
                again = await client.get(kind, "mine")
                assert again["metadata"]["resourceVersion"] == mine["metadata"]["resourceVersion"]
                another = await client.get(kind, "another")
                assert all("caBundle" not in hook["clientConfig"] for hook in another["webhooks"])
            with pytest.raises(NotFound):
                await inject_ca(client, bundle, validating=["absent"])

    with live_plane(tmp_path) as kubeconfig:
        asyncio.run(main(kubeconfig))


PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "cryptography":
            raise ImportError(name)

sys.meta_path.insert(0, Forbidden())
from kapi.controller.webhook import Mounted, SelfSigned
Mounted("/nowhere")
try:
    SelfSigned()
except RuntimeError as error:
    print(error)
"""


def test_without_the_cryptography_package_one_sentence_says_what_to_do():
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install cryptography" in done.stdout
