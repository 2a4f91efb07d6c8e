"""Certificates: what is issued, when it is renewed, and what both ends make of it."""

import datetime as dt
import shutil
import socket
import ssl
import stat
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kapi.base import clientca
from kapi.base.clock import ManualClock, SystemClock
from kapi.base.tls import (
    BACKDATED,
    Authority,
    KeyPair,
    client_context,
    local_names,
    server_context,
    service_names,
    write_private,
)
from kapi.base.trust import Authorities, UntrustedCertificate, subject

NOW = dt.datetime(2030, 5, 1, 12, tzinfo=dt.UTC)
DAY = 24 * 3600.0


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def authority(tmp_path, clock):
    return Authority.ensure(pair(tmp_path / "pki", "ca"), "test-ca", clock=clock)


def pair(directory, name):
    return KeyPair(directory / f"{name}.crt", directory / f"{name}.key")


def load(files):
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


def der(files):
    return ssl.PEM_cert_to_DER_cert(files.certificate.read_text())


def test_certificate_authority_is_created_once_and_reused(tmp_path, clock, authority):
    before = authority.files.certificate.read_bytes()
    Authority.ensure(authority.files, "test-ca", clock=clock)
    assert authority.files.certificate.read_bytes() == before
    certificate = load(authority.files)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is True
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert certificate.not_valid_before_utc == NOW - BACKDATED
    assert certificate.not_valid_after_utc == NOW + dt.timedelta(days=3650)


def test_keys_are_for_their_owner_only_and_no_draft_is_left(tmp_path, authority):
    assert stat.S_IMODE(authority.files.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(authority.files.certificate.stat().st_mode) == 0o644
    assert stat.S_IMODE(authority.files.key.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in authority.files.key.parent.iterdir()) == ["ca.crt", "ca.key"]


def test_authority_near_its_end_is_renewed_with_the_same_key(tmp_path, clock, authority):
    client = pair(tmp_path, "client")
    clock.advance(3600 * DAY)
    authority.ensure_client(client, "alice")
    clock.advance(30 * DAY)
    renewed = Authority.ensure(authority.files, "test-ca", clock=clock)
    assert load(renewed.files).not_valid_after_utc > clock.now() + dt.timedelta(days=3000)
    load(client).verify_directly_issued_by(load(renewed.files))


@pytest.mark.parametrize("damage", ["missing", "foreign"])
def test_authority_without_its_key_is_an_error_and_not_replaced(tmp_path, clock, authority, damage):
    before = authority.files.certificate.read_bytes()
    if damage == "missing":
        authority.files.key.unlink()
    else:
        other = Authority.ensure(pair(tmp_path, "other"), "other", clock=clock)
        authority.files.key.write_bytes(other.files.key.read_bytes())
    with pytest.raises((OSError, ValueError)):
        Authority.ensure(authority.files, "test-ca", clock=clock)
    assert authority.files.certificate.read_bytes() == before


def test_server_certificate_names_hosts_and_addresses(tmp_path, authority):
    files = pair(tmp_path, "server")
    names = [*local_names(), *service_names("kubernetes", "default", "cluster.local"), "10.0.0.1", "LOCALHOST"]
    authority.ensure_server(files, names)
    certificate = load(files)
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = alternatives.get_values_for_type(x509.DNSName)
    assert {"localhost", "kubernetes", "kubernetes.default.svc.cluster.local"} <= set(hosts)
    assert [str(address) for address in alternatives.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
    ]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.not_valid_after_utc == NOW + dt.timedelta(days=365)


def test_server_certificate_that_fits_is_kept(tmp_path, clock, authority):
    files = pair(tmp_path, "server")
    authority.ensure_server(files, ["localhost", "::1"])
    before = files.certificate.read_bytes()
    clock.advance(334 * DAY)
    authority.ensure_server(files, ["localhost", "0:0:0:0:0:0:0:1"])
    assert files.certificate.read_bytes() == before


@pytest.mark.parametrize("change", ["names", "age", "authority", "key", "garbage"])
def test_server_certificate_that_no_longer_fits_is_issued_anew(tmp_path, clock, authority, change):
    files = pair(tmp_path, "server")
    names = ["localhost"]
    authority.ensure_server(files, names)
    before = files.certificate.read_bytes()
    match change:
        case "names":
            names.append("other")
        case "age":
            clock.advance(336 * DAY)
        case "authority":
            authority = Authority.ensure(pair(tmp_path, "new"), "test-ca", clock=clock)
        case "key":
            files.key.write_bytes(authority.files.key.read_bytes())
        case "garbage":
            files.certificate.write_bytes(b"garbage")
    authority.ensure_server(files, names)
    assert files.certificate.read_bytes() != before
    load(files).verify_directly_issued_by(load(authority.files))


def test_leaf_does_not_outlive_its_authority(tmp_path, clock, authority):
    clock.advance(3600 * DAY)
    authority.ensure_server(pair(tmp_path, "server"), ["localhost"])
    assert load(pair(tmp_path, "server")).not_valid_after_utc == load(authority.files).not_valid_after_utc


def test_client_certificate_names_its_user_and_authenticates_clients(tmp_path, clock, authority):
    files = pair(tmp_path, "client")
    authority.ensure_client(files, "alice", ["devs", "admins"])
    who = subject(der(files))
    assert (who.common_name, who.organizations) == ("alice", ("devs", "admins"))
    end = Authorities.read(authority.files.certificate).verify([der(files)], clock.now())
    assert end == NOW + dt.timedelta(days=365)


def test_client_certificate_is_issued_anew_for_other_groups(tmp_path, authority):
    files = pair(tmp_path, "client")
    authority.ensure_client(files, "alice", ["devs"])
    authority.ensure_client(files, "alice", ["admins"])
    assert subject(der(files)).organizations == ("admins",)


def test_server_certificate_is_not_for_clients(tmp_path, clock, authority):
    files = pair(tmp_path, "server")
    authority.ensure_server(files, ["localhost"])
    with pytest.raises(UntrustedCertificate, match="key usage"):
        Authorities.read(authority.files.certificate).verify([der(files)], clock.now())


def test_private_file_replaces_another_whatever_its_mode(tmp_path):
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def shake(server, client, name):
    """A handshake over a socket pair; returns what the client agreed to, or raises what it met."""
    ours, theirs = socket.socketpair()

    def serve():
        try:
            with server.wrap_socket(ours, server_side=True) as tls:
                tls.recv(1)
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=name) as tls:
            tls.sendall(b"x")
            return tls.version(), tls.selected_alpn_protocol()
    finally:
        theirs.close()
        thread.join()


@pytest.fixture
def served(tmp_path):
    authority = Authority.ensure(pair(tmp_path / "pki", "ca"), "test-ca", clock=SystemClock())
    files = pair(tmp_path, "server")
    authority.ensure_server(files, ["localhost", "127.0.0.1"])
    return authority, server_context(files, client_authorities=[authority.files.certificate])


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_client_trusts_what_its_authority_issued(served, name):
    authority, server = served
    client = client_context(authority.files.certificate)
    client.set_alpn_protocols(["h2", "http/1.1"])
    assert shake(server, client, name) == ("TLSv1.3", "http/1.1")


def test_client_refuses_another_name_and_another_authority(served, tmp_path):
    authority, server = served
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(authority.files.certificate), "elsewhere")
    other = Authority.ensure(pair(tmp_path / "other", "ca"), "test-ca")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client_context(other.files.certificate), "localhost")


def test_old_tls_is_refused(served):
    authority, server = served
    client = client_context(authority.files.certificate)
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        client.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(server, client, "localhost")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_handshake_names_the_acceptable_client_authorities(served, version):
    authority, context = served
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, context.wrap_socket(connection, server_side=True) as tls:
                tls.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        command = ["openssl", "s_client", "-connect", target, version, "-CAfile", authority.files.certificate]
        done = subprocess.run(command, input="x", capture_output=True, text=True, timeout=30, check=False)
        thread.join()
    lines = done.stdout.splitlines()
    named = lines[lines.index("Acceptable client certificate CA names") + 1]
    assert named.replace(" ", "") == "CN=test-ca"


def test_certificate_of_another_authority_does_not_fail_the_handshake(served, tmp_path):
    authority, server = served
    other = Authority.ensure(pair(tmp_path / "other", "ca"), "other")
    other.ensure_client(pair(tmp_path, "stranger"), "bob")
    shown = client_context(authority.files.certificate, files=pair(tmp_path, "stranger"))
    assert shake(server, shown, "localhost") == ("TLSv1.3", "http/1.1")


def test_openssl_verifies_where_it_cannot_be_told_not_to(tmp_path, monkeypatch):
    def unreachable():
        raise ImportError

    monkeypatch.setattr(clientca, "_library", unreachable)
    authority = Authority.ensure(pair(tmp_path / "pki", "ca"), "test-ca")
    other = Authority.ensure(pair(tmp_path / "other", "ca"), "other")
    authority.ensure_server(pair(tmp_path, "server"), ["localhost"])
    authority.ensure_client(pair(tmp_path, "client"), "alice")
    other.ensure_client(pair(tmp_path, "stranger"), "alice")
    server = server_context(pair(tmp_path, "server"), client_authorities=[authority.files.certificate])
    known = client_context(authority.files.certificate, files=pair(tmp_path, "client"))
    assert shake(server, known, "localhost") == ("TLSv1.3", "http/1.1")
    # In TLS 1.2 a client is told before its handshake ends.
    stranger = client_context(authority.files.certificate, files=pair(tmp_path, "stranger"))
    stranger.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(server, stranger, "localhost")


def foreign(files, key, name="their-ca", until=3650 * DAY):
    """An authority that another program made."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - dt.timedelta(days=1))
        .not_valid_after(NOW + dt.timedelta(seconds=until))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier(b"their own identifier"), critical=False)
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    files.certificate.parent.mkdir()
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    if isinstance(key, ed25519.Ed25519PrivateKey):
        form = serialization.PrivateFormat.PKCS8
    files.key.write_bytes(key.private_bytes(pem, form, plain))


def test_rsa_authority_is_accepted_and_issues_certificates(tmp_path, clock):
    files, server, client = pair(tmp_path / "pki", "ca"), pair(tmp_path, "server"), pair(tmp_path, "client")
    foreign(files, rsa.generate_private_key(65537, 2048))
    before = files.certificate.read_bytes(), files.key.read_bytes()
    authority = Authority.ensure(files, "test-ca", clock=clock)
    authority.ensure_server(server, ["localhost"])
    authority.ensure_client(client, "alice", ["devs"])
    assert (files.certificate.read_bytes(), files.key.read_bytes()) == before
    for one in (server, client):
        load(one).verify_directly_issued_by(load(files))
        issuer = load(one).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
        assert issuer.key_identifier == b"their own identifier"
    issued = server.certificate.read_bytes()
    authority.ensure_server(server, ["localhost"])
    assert server.certificate.read_bytes() == issued


def test_renewed_authority_keeps_its_name(tmp_path, clock):
    files = pair(tmp_path / "pki", "ca")
    foreign(files, rsa.generate_private_key(65537, 2048), until=DAY)
    Authority.ensure(files, "test-ca", clock=clock)
    assert load(files).subject.rfc4514_string() == "CN=their-ca"
    assert load(files).not_valid_after_utc > NOW + dt.timedelta(days=1000)


def test_authority_with_a_key_of_another_kind_is_an_error(tmp_path, clock):
    files = pair(tmp_path / "pki", "ca")
    foreign(files, ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(ValueError, match="neither an RSA key nor an elliptic curve key"):
        Authority.ensure(files, "test-ca", clock=clock)
