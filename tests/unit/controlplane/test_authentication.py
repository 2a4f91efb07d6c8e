"""Authentication as the options configure it, over real connections to a whole control plane."""

import asyncio
import datetime as dt
import json
import re
import ssl

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from certificates import DAY, new_authority
from issuer_server import IssuerServer
from kapi.base.jwt import SigningKey
from kapi.base.tls import Authority, KeyPair, client_context
from kapi.controlplane.assemble import ControlPlane
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.options import OptionError, Options
from live_plane import closed

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


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
        await closed(writer)
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(text) if text.startswith(b"{") else text


def replace(path, content):
    """Change a file as a whole: the server may read it at any time."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content if isinstance(content, bytes) else content.encode())
    draft.replace(path)


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
        replace(bundle, foreign.pem)
        admitted = foreign.issue("bob", masters)

        async def is_admitted():
            return (await whoami(admitted))[0] == 201

        await until(is_admitted)
        assert (await whoami(second.issue("bob", masters)))[0] == 401
        # A file that cannot be used changes nothing.
        replace(bundle, "nothing")

        async def is_reported():
            metrics = plane.metrics.registry.get_sample_value
            return metrics("kapi_file_reloads_total", {"file": "client-ca", "status": "failure"})

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
            return metrics("kapi_file_reloads_total", {"file": "serving-certificate", "status": "failure"})

        assert await is_open()
        replace(files.key, after.files.key.read_bytes())
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
            await closed(writer)

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


def bearer(token):
    return [f"Authorization: Bearer {token}"]


def test_tokens_of_a_file_are_read_again_when_it_changes(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('first-token,alice,u-1,"system:masters,devs"\n')

    async def check(plane):
        async def whoami(token):
            status, answer = await ask(plane, "POST", WHOAMI, body="{}", headers=bearer(token))
            return answer["status"]["userInfo"] if status == 201 else status

        groups = ["system:masters", "devs", "system:authenticated"]
        assert await whoami("first-token") == {"username": "alice", "uid": "u-1", "groups": groups}
        assert await whoami("second-token") == 401
        replace(path, "second-token,bob,u-2,system:masters\n")

        async def is_read():
            return await whoami("second-token") != 401

        await until(is_read)
        assert await whoami("first-token") == 401
        # The admin's own token is not in the file.
        assert (await whoami((plane.options.data_dir / "pki" / "admin.token").read_text()))["username"]

    run_plane(options(tmp_path, token_auth_file=path), check)


def test_start_is_refused_with_a_token_file_that_has_a_mistake(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text("secret-token,alice\n")
    with pytest.raises(OptionError, match=rf"^--token-auth-file {path}:1: expected at least 3 columns") as caught:
        run_plane(options(tmp_path, token_auth_file=path), no_check)
    assert "secret-token" not in str(caught.value)


def test_requests_without_credentials_can_be_refused(tmp_path):
    async def check(plane):
        for path in ("/livez", "/api", "/version"):
            assert (await ask(plane, path=path))[0] == 401
        token = (plane.options.data_dir / "pki" / "admin.token").read_text()
        assert (await ask(plane, path="/livez", headers=bearer(token)))[0] == 200

    run_plane(options(tmp_path, anonymous_auth=False), check)


def test_tokens_of_former_keys_and_issuers_are_accepted(tmp_path):
    former = SigningKey(tmp_path / "former.key")
    former_public = tmp_path / "former.pem"
    former_public.write_bytes(former.public.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    signing = tmp_path / "signing.key"
    rsa_key = rsa.generate_private_key(65537, 2048)
    signing.write_bytes(rsa_key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))

    async def check(plane):
        token = (plane.options.data_dir / "pki" / "admin.token").read_text()
        path = "/api/v1/namespaces/default/serviceaccounts"
        await ask(plane, "POST", path, body='{"metadata":{"name":"robot"}}', headers=bearer(token))
        status, issued = await ask(plane, "POST", f"{path}/robot/token", body="{}", headers=bearer(token))
        assert status == 201
        assert issued["spec"]["audiences"] == ["api"]
        made = issued["status"]["token"]
        assert jwt.get_unverified_header(made)["alg"] == "RS256"
        claims = jwt.decode(made, options={"verify_signature": False})
        assert claims["iss"] == "https://now.example"
        old = former.sign(claims | {"iss": "https://before.example"})
        for one in (made, old):
            assert (await ask(plane, path="/livez", headers=bearer(one)))[0] == 200
        assert (await ask(plane, path="/livez", headers=bearer(former.sign(claims | {"iss": "else"}))))[0] == 401
        _, keys = await ask(plane, path="/openid/v1/jwks", headers=bearer(token))
        assert [key["alg"] for key in keys["keys"]] == ["ES256", "RS256"]

    configured = options(
        tmp_path,
        service_account_issuer=("https://now.example", "https://before.example"),
        service_account_signing_key_file=signing,
        service_account_key_file=(former_public,),
        api_audiences=("api",),
    )
    run_plane(configured, check)


@pytest.mark.parametrize(
    ("field", "flag"),
    [
        ("service_account_signing_key_file", "--service-account-signing-key-file"),
        ("service_account_key_file", "--service-account-key-file"),
    ],
)
@pytest.mark.parametrize("content", [None, "nothing"])
def test_start_is_refused_with_a_key_file_that_cannot_be_used(tmp_path, field, flag, content):
    path = tmp_path / "some.key"
    if content is not None:
        path.write_text(content)
    given = (path,) if field == "service_account_key_file" else path
    with pytest.raises(OptionError, match=rf"^{flag} {path}"):
        run_plane(options(tmp_path, **{field: given}), no_check)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"service_account_issuer": ("",)}, "--service-account-issuer: expected a URL or a name"),
        ({"service_account_issuer": ("a", "a")}, "--service-account-issuer 'a' is given twice"),
        ({"service_account_issuer": ("https://[x",)}, "is not a valid URL"),
        ({"service_account_jwks_uri": "http://a"}, "--service-account-jwks-uri 'http://a': expected a URL"),
        ({"api_audiences": ("a", "")}, "--api-audiences: expected names"),
    ],
)
def test_start_is_refused_with_issuers_that_cannot_be_used(tmp_path, given, reason):
    with pytest.raises(OptionError, match=re.escape(reason)):
        run_plane(options(tmp_path, **given), no_check)


def test_front_proxy_is_configured_and_published(tmp_path):
    proxies = new_authority("proxies")
    path = tmp_path / "proxies.crt"
    path.write_bytes(proxies.pem)

    async def check(plane):
        context = showing(plane, proxies.issue("proxy"), tmp_path)
        headers = ["X-Remote-User: alice", "X-Remote-Group: system:masters", "X-Remote-Group: a, b"]
        status, review = await ask(plane, "POST", WHOAMI, context=context, body="{}", headers=headers)
        assert status == 201
        groups = ["system:masters", "a, b", "system:authenticated"]
        assert review["status"]["userInfo"] == {"username": "alice", "groups": groups}
        assert (await ask(plane, context=context))[0] == 401

        async def data():
            reply = await plane.transport.request("GET", CONFIG)
            return json.loads(await reply.read())["data"]

        told = await data()
        assert told.pop("client-ca-file").encode() == (plane.options.data_dir / "pki" / "ca.crt").read_bytes()
        assert told == {
            "requestheader-allowed-names": '["proxy"]',
            "requestheader-client-ca-file": proxies.pem.decode(),
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        }
        other = new_authority("others")
        replace(path, other.pem)

        async def is_published():
            return (await data())["requestheader-client-ca-file"] == other.pem.decode()

        await until(is_published)
        assert (await ask(plane, context=context, headers=headers))[0] == 401

    run_plane(options(tmp_path, requestheader_client_ca_file=path, requestheader_allowed_names=("proxy",)), check)


def test_other_servers_are_told_to_trust_this_one_as_a_front_proxy(tmp_path):
    async def check(plane):
        folder = plane.options.data_dir / "pki"

        async def data():
            reply = await plane.transport.request("GET", CONFIG)
            return json.loads(await reply.read()).get("data")

        told = await data()
        assert told["requestheader-client-ca-file"].encode() == (folder / "front-proxy-ca.crt").read_bytes()
        assert told["requestheader-allowed-names"] == '["front-proxy-client"]'
        assert told["requestheader-username-headers"] == '["X-Remote-User"]'
        # It does not trust such a proxy itself: nothing but other servers needs to.
        pair = KeyPair(folder / "front-proxy-client.crt", folder / "front-proxy-client.key")
        context = client_context(folder / "ca.crt", files=pair)
        assert (await ask(plane, context=context, headers=["X-Remote-User: kubernetes-admin"]))[0] == 401
        assert (await plane.transport.request("DELETE", CONFIG)).status == 200

        async def is_back():
            return await data() == told

        await until(is_back)

    run_plane(options(tmp_path), check)


def test_start_is_refused_with_a_certificate_that_other_servers_could_not_verify(tmp_path):
    proxies = new_authority("proxies")
    path = tmp_path / "proxies.crt"
    path.write_bytes(proxies.pem)
    with pytest.raises(OptionError, match="expected both or neither"):
        run_plane(options(tmp_path, requestheader_client_ca_file=path, proxy_client_cert_file=path), no_check)
    given = {"proxy_client_cert_file": path, "proxy_client_key_file": path}
    with pytest.raises(OptionError, match="no effect without --requestheader-client-ca-file"):
        run_plane(options(tmp_path, **given), no_check)
    with pytest.raises(OptionError, match=r"--proxy-client-cert-file .*proxies\.crt"):
        run_plane(options(tmp_path, requestheader_client_ca_file=path, **given), no_check)


def test_start_is_refused_if_every_client_could_be_a_front_proxy(tmp_path):
    path = tmp_path / "ca.crt"
    path.write_bytes(new_authority().pem)
    with pytest.raises(OptionError, match="contain overlapping certificates"):
        run_plane(options(tmp_path, requestheader_client_ca_file=path, client_ca_file=path), no_check)
    with pytest.raises(OptionError, match="--requestheader-group-headers: an empty name"):
        run_plane(options(tmp_path, requestheader_client_ca_file=path, requestheader_group_headers=(" ",)), no_check)
    with pytest.raises(OptionError, match="no effect without --requestheader-client-ca-file"):
        run_plane(options(tmp_path, requestheader_group_headers=("X-Group",)), no_check)


def configuration(*entries, anonymous=None):
    """An AuthenticationConfiguration, as the text of a file."""
    config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": list(entries)}
    return json.dumps(config if anonymous is None else {**config, "anonymous": anonymous})


def test_authentication_configuration_is_read_again_and_a_bad_one_is_not_used(tmp_path):
    path = tmp_path / "authentication.yaml"
    (tmp_path / "issuer").mkdir()

    async def check(plane):
        async with IssuerServer(tmp_path / "issuer") as issuer:
            token = issuer.token(dt.datetime.now(dt.UTC))

            async def whoami():
                status, answer = await ask(plane, "POST", WHOAMI, body="{}", headers=bearer(token))
                return answer["status"]["userInfo"]["username"] if status == 201 else status

            assert await whoami() == 401
            assert (await ask(plane, path="/livez"))[0] == 200
            assert (await ask(plane, path="/readyz"))[0] == 401
            everywhere = {"enabled": True}
            replace(path, configuration(issuer.config(), anonymous=everywhere))

            async def is_known():
                return await whoami() == "oidc:alice"

            await until(is_known)
            assert (await ask(plane, path="/readyz"))[0] == 200
            replace(path, configuration({"issuer": {"url": "http://a"}}))

            async def is_reported():
                metrics = plane.metrics.registry.get_sample_value
                return metrics("kapi_file_reloads_total", {"file": "authentication-config", "status": "failure"})

            await until(is_reported)
            assert await is_known()
            replace(path, configuration(anonymous={"enabled": False}))

            async def is_unknown():
                return await whoami() == 401

            await until(is_unknown)
            assert (await ask(plane, path="/livez"))[0] == 401

    path.write_text(configuration(anonymous={"enabled": True, "conditions": [{"path": "/livez"}]}))
    run_plane(options(tmp_path, authentication_config=path), check)


def test_issuer_of_flags_and_a_webhook_name_users(tmp_path):
    async def main():
        folder = tmp_path / "issuer"
        folder.mkdir()
        async with IssuerServer(folder) as issuer:
            authority = tmp_path / "issuer.crt"
            authority.write_bytes(issuer.certificates.pem)
            webhook = tmp_path / "webhook.kubeconfig"
            webhook.write_text(
                json.dumps(
                    {
                        "apiVersion": "v1",
                        "kind": "Config",
                        "clusters": [
                            {
                                "name": "w",
                                "cluster": {"server": f"{issuer.url}/review", "certificate-authority": "issuer.crt"},
                            }
                        ],
                        "contexts": [{"name": "w", "context": {"cluster": "w"}}],
                    }
                )
            )
            issuer.answer = lambda review: {
                "authenticated": review["spec"]["token"] == "opaque",
                "user": {"username": "carol", "groups": ["system:masters"]},
            }
            plane = ControlPlane(
                options(
                    tmp_path,
                    oidc_issuer_url=issuer.url,
                    oidc_client_id="kapi",
                    oidc_ca_file=authority,
                    oidc_groups_claim="groups",
                    oidc_groups_prefix="g:",
                    oidc_required_claim=("hd=example.com",),
                    authentication_token_webhook_config_file=webhook,
                )
            )
            try:
                await plane.start()

                async def whoami(token):
                    status, answer = await ask(plane, "POST", WHOAMI, body="{}", headers=bearer(token))
                    return answer["status"]["userInfo"] if status == 201 else status

                now = dt.datetime.now(dt.UTC)
                user = await whoami(issuer.token(now, groups=["a"], hd="example.com"))
                assert user == {"username": f"{issuer.url}#alice", "groups": ["g:a", "system:authenticated"]}
                assert await whoami(issuer.token(now, hd="other.com")) == 401
                # Other algorithms than RS256 are not accepted unless they are listed.
                assert await whoami(issuer.token(now, algorithm="PS256", hd="example.com")) == 401
                assert (await whoami("opaque"))["username"] == "carol"
                assert await whoami("unknown") == 401
            finally:
                await plane.stop()

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"oidc_issuer_url": "https://a"}, "--oidc-issuer-url and --oidc-client-id must be specified together"),
        ({"oidc_groups_claim": "g"}, "--oidc-issuer-url and --oidc-client-id must be specified together"),
        ({"oidc_issuer_url": "http://a", "oidc_client_id": "c"}, "URL scheme must be https"),
        (
            {"oidc_issuer_url": "https://a", "oidc_client_id": "c", "oidc_signing_algs": ("none",)},
            "--oidc-signing-algs 'none': expected one or more of RS256",
        ),
        (
            {"oidc_issuer_url": "https://a", "oidc_client_id": "c", "oidc_required_claim": ("x",)},
            "--oidc-required-claim 'x': expected CLAIM=VALUE",
        ),
        (
            {"oidc_issuer_url": "https://kubernetes.default.svc.cluster.local", "oidc_client_id": "c"},
            "must not overlap with disallowed issuers",
        ),
    ],
)
def test_start_is_refused_with_flags_that_do_not_make_an_issuer(tmp_path, given, reason):
    with pytest.raises(OptionError, match=re.escape(reason)):
        run_plane(options(tmp_path, **given), no_check)


def test_start_is_refused_with_a_configuration_that_has_mistakes(tmp_path):
    path = tmp_path / "authentication.yaml"
    path.write_text("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {}\n")
    with pytest.raises(ValueError, match=rf"^{path}:4: jwt\[0\]\.issuer\.url: Required value"):
        run_plane(options(tmp_path, authentication_config=path), no_check)
    path.write_text(configuration(anonymous={"enabled": True}))
    with pytest.raises(OptionError, match="--anonymous-auth flag cannot be set when anonymous field is configured"):
        run_plane(options(tmp_path, authentication_config=path, anonymous_auth=True), no_check)
    with pytest.raises(OptionError, match="mutually exclusive"):
        run_plane(options(tmp_path, authentication_config=path, oidc_client_id="a"), no_check)
