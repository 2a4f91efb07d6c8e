"""Authentication as the options configure it, over real connections to a whole control plane."""

import asyncio
import json
import ssl

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from certificates import DAY, new_authority
from kapi.base.tls import Authority, KeyPair, client_context
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.options import OptionError, Options

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def options(folder, **more):
    tls = {name: more.pop(name) for name in ("serving_files", "serving_names") if name in more}
    authentication = AuthenticationOptions(**more)
    return Options(
        folder / "data", port=0, storage="memory", controllers=frozenset(), authentication=authentication, **tls
    )


def run_plane(options, check):
    """Start a control plane, call `check(plane)`, and stop it."""

    async def main():
        plane = ControlPlane(options)
        try:
            await plane.start()
            await asyncio.wait_for(check(plane), 60)
        finally:
            await plane.stop()

    asyncio.run(main())


async def ask(plane, method="GET", path="/api/v1/namespaces", *, context=None, body="", headers=()):
    """Send one request over a connection of its own; returns the status and the body, decoded."""
    host, port = plane.url.removeprefix("https://").split(":")
    context = context or client_context(plane.options.data_dir / "pki" / "ca.crt")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
    try:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json", "", body]
        writer.write("\r\n".join(lines).encode())
        answer = await reader.read()
    finally:
        writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(text) if text.startswith(b"{") else text


async def until(condition):
    """Wait until a condition, which is asked again and again, holds."""
    while not await condition():  # noqa: ASYNC110 - files are polled, too
        await asyncio.sleep(0.05)


def showing(plane, certificate, folder):
    """The TLS context of a client with this certificate."""
    return client_context(plane.options.data_dir / "pki" / "ca.crt", files=certificate.write(folder, "client"))


def test_client_certificates_of_further_authorities_name_users(tmp_path):
    first, second, foreign = (new_authority(name) for name in ("first", "second", "foreign"))
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(first.pem + second.pem)

    async def check(plane):
        async def whoami(certificate):
            context = showing(plane, certificate, tmp_path)
            return await ask(plane, "POST", WHOAMI, context=context, body="{}")

        masters = ["system:masters"]
        for issuer in (first, second):
            status, review = await whoami(issuer.issue("bob", masters))
            assert status == 201
            user = review["status"]["userInfo"]
            assert (user["username"], user["groups"]) == ("bob", [*masters, "system:authenticated"])
            assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
        wrong = [
            foreign.issue("bob", masters),
            first.issue("bob", masters, ends=-DAY / 2),
            first.issue("bob", masters, usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
        ]
        for certificate in wrong:
            status, answer = await whoami(certificate)
            assert (status, answer["message"], answer["reason"]) == (401, "Unauthorized", "Unauthorized")
        # The file is re-read: what was trusted is not, and the other way round.
        bundle.write_bytes(foreign.pem)
        assert (await whoami(second.issue("bob", masters)))[0] in (201, 401)
        admitted = foreign.issue("bob", masters)

        async def is_admitted():
            return (await whoami(admitted))[0] == 201

        await until(is_admitted)
        assert (await whoami(second.issue("bob", masters)))[0] == 401
        # A file that cannot be used changes nothing.
        bundle.write_text("nothing")

        async def is_reported():
            metrics = plane.metrics.registry.get_sample_value
            return metrics("kapi_file_reloads_total", {"file": "client-ca", "status": "failure"}) == 1

        await until(is_reported)
        assert await is_admitted()

    run_plane(options(tmp_path, client_ca_file=bundle), check)


def test_server_certificate_is_read_again_without_dropping_connections(tmp_path):
    files = KeyPair(tmp_path / "server.crt", tmp_path / "server.key")
    before = Authority.ensure(KeyPair(tmp_path / "a.crt", tmp_path / "a.key"), "before")
    after = Authority.ensure(KeyPair(tmp_path / "b.crt", tmp_path / "b.key"), "after")
    before.ensure_server(files, ["localhost"])

    async def check(plane):
        host, port = plane.url.removeprefix("https://").split(":")
        old, new = (client_context(one.files.certificate) for one in (before, after))
        reader, writer = await asyncio.open_connection(host, int(port), ssl=old, server_hostname="localhost")

        async def is_open():
            writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            return (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

        async def is_reported():
            metrics = plane.metrics.registry.get_sample_value
            return metrics("kapi_file_reloads_total", {"file": "serving-certificate", "status": "failure"}) == 1

        assert await is_open()
        files.key.write_bytes(after.files.key.read_bytes())
        await until(is_reported)
        assert (await ask(plane, path="/livez", context=old))[0] == 200
        after.ensure_server(files, ["localhost"])

        async def is_replaced():
            try:
                return (await ask(plane, path="/livez", context=new))[0] == 200
            except ssl.SSLCertVerificationError:
                return False

        await until(is_replaced)
        assert await is_open()
        writer.close()

    run_plane(options(tmp_path, serving_files=files), check)


def test_issued_server_certificate_has_the_names_that_were_given(tmp_path):
    async def check(plane):
        host, port = plane.url.removeprefix("https://").split(":")
        context = client_context(plane.options.data_dir / "pki" / "ca.crt")
        for name in ("api.example.com", "192.0.2.7"):
            _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
            writer.close()

    run_plane(options(tmp_path, serving_names=("api.example.com", "192.0.2.7")), check)


async def no_check(plane):
    raise AssertionError("it started")


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), ("nothing", "no certificates can be read")]
)
def test_start_is_refused_with_a_client_ca_file_that_cannot_be_used(tmp_path, content, reason):
    path = tmp_path / "clients.crt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(OptionError, match=rf"^--client-ca-file {path}: {reason}"):
        run_plane(options(tmp_path, client_ca_file=path), no_check)


def test_start_is_refused_with_a_server_certificate_that_cannot_be_used(tmp_path):
    files = new_authority().issue("server").write(tmp_path, "server")
    files.key.write_bytes(new_authority().write(tmp_path, "other").key.read_bytes())
    with pytest.raises(BootstrapError, match=r"server\.crt, .*server\.key: TLS cannot be served with them: KEY_VALUES"):
        run_plane(options(tmp_path, serving_files=files), no_check)
    files.key.unlink()
    with pytest.raises(BootstrapError, match=r"server\.key: No such file"):
        run_plane(options(tmp_path, serving_files=files), no_check)
