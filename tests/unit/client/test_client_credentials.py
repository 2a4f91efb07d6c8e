"""What a request carries to say who sends it, and whom a connection trusts."""

import asyncio
import logging
import os
import shutil
import ssl

import pytest

from kapi.base.tls import Authority, KeyPair
from kapi.client import ClientConfig, ConfigError
from kapi.client.auth.credentials import Credentials, tls_context


def _present(credentials):
    return asyncio.run(credentials.present())


def _headers(server="https://x", **fields):
    return list(_present(Credentials(ClientConfig(server, **fields))).headers)


def test_a_token_wins_over_a_password():
    assert _headers(token="t", username="u", password="p") == [("Authorization", "Bearer t")]
    assert _headers(username="u", password="p") == [("Authorization", "Basic dTpw")]
    assert _headers() == []


def test_impersonation_names_the_user_and_more():
    headers = _headers(
        impersonate_user="jane",
        impersonate_uid="7",
        impersonate_groups=("a", "b"),
        impersonate_extra=(("example.com/scope", ("x", "y")),),
    )
    assert headers == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Fscope", "x"),
        ("Impersonate-Extra-example.com%2Fscope", "y"),
    ]


def test_groups_cannot_be_impersonated_alone():
    with pytest.raises(ConfigError, match="without a user"):
        _headers(impersonate_groups=("a",))


def _write(path, text):
    """Write a file as a kubelet does: a new file in the place of the old one."""
    draft = path.with_name(path.name + ".new")
    draft.write_text(text)
    draft.replace(path)


def _bearer(token):
    return (("Authorization", f"Bearer {token}"),)


def test_token_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "token"
    _write(path, "one\n")
    credentials = Credentials(ClientConfig("https://x", token_file=path))
    assert _present(credentials).headers == _bearer("one")
    _write(path, "two")
    assert _present(credentials).headers == _bearer("two")
    path.unlink()
    assert _present(credentials).headers == _bearer("two")
    _write(path, "three")
    assert _present(credentials).headers == _bearer("three")


def test_a_token_file_wins_over_a_token_once_it_can_be_read(tmp_path):
    path = tmp_path / "token"
    credentials = Credentials(ClientConfig("https://x", token="first", token_file=path))
    assert _present(credentials).headers == _bearer("first")
    _write(path, "second")
    assert _present(credentials).headers == _bearer("second")


def test_refused_token_is_read_anew_even_from_a_file_that_looks_the_same(tmp_path):
    path = tmp_path / "token"
    path.write_text("one")
    credentials = Credentials(ClientConfig("https://x", token_file=path))
    refused = _present(credentials)
    state = path.stat()
    path.write_text("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert _present(credentials) == refused
    assert asyncio.run(credentials.renew(refused))
    assert _present(credentials).headers == _bearer("two")


def test_there_is_nothing_to_renew_in_what_never_changes():
    credentials = Credentials(ClientConfig("https://x", token="t"))
    assert not asyncio.run(credentials.renew(_present(credentials)))


def test_empty_token_file_is_named(tmp_path):
    path = tmp_path / "token"
    path.write_text("\n")
    with pytest.raises(ConfigError, match=r"token file .*token is empty"):
        _headers(token_file=path)


def test_missing_token_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"token file .*gone"):
        _headers(token_file=tmp_path / "gone")


def test_credentials_are_not_sent_without_tls():
    with pytest.raises(ConfigError, match="not https"):
        Credentials(ClientConfig("http://x", token="t"))
    assert _headers("http://x") == []


def test_server_is_checked_unless_the_config_says_otherwise():
    checked = tls_context(ClientConfig("https://x"))
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    trusting = tls_context(ClientConfig("https://x", insecure=True))
    assert (trusting.check_hostname, trusting.verify_mode) == (False, ssl.CERT_NONE)
    assert tls_context(ClientConfig("http://x")) is None


def test_own_authority_is_the_only_one(admin):
    context = tls_context(admin)
    assert [dict(pair for names in authority["subject"] for pair in names) for authority in context.get_ca_certs()] == [
        {"commonName": "kapi"}
    ]


def test_unusable_certificates_are_named(tmp_path, admin):
    odd = tmp_path / "odd.pem"
    odd.write_text("not a certificate")
    with pytest.raises(ConfigError, match=r"odd\.pem cannot be used as an authority"):
        tls_context(ClientConfig("https://x", ca_file=odd))
    with pytest.raises(ConfigError, match="certificate-authority-data cannot be used"):
        tls_context(ClientConfig("https://x", ca_data=b"odd"))
    with pytest.raises(ConfigError, match=r"odd\.pem cannot be used as a client certificate"):
        tls_context(ClientConfig("https://x", cert_file=odd, key_file=odd))
    with pytest.raises(ConfigError, match="client-certificate-data cannot be used"):
        tls_context(ClientConfig("https://x", cert_data=admin.cert_data, key_data=b"odd"))
    with pytest.raises(ConfigError, match="needs both"):
        tls_context(ClientConfig("https://x", cert_data=admin.cert_data))


def test_no_key_is_left_on_disk(tmp_path, monkeypatch, admin):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tls_context(admin)
    assert list(tmp_path.glob("tmp*")) == []


def test_what_a_request_carries_is_never_printed():
    presented = _present(Credentials(ClientConfig("https://x", token="SECRET")))
    assert "SECRET" not in f"{presented!r} {presented}"


# -- certificates that change -----------------------------------------------------------------------------------------


def _authority(folder, name):
    folder.mkdir()
    return Authority.ensure(KeyPair(folder / "ca.crt", folder / "ca.key"), name)


def _trusted(context):
    return [dict(pair for names in each["subject"] for pair in names)["commonName"] for each in context.get_ca_certs()]


def test_new_connections_trust_the_authority_the_file_has_now(tmp_path):
    old, new = _authority(tmp_path / "old", "old"), _authority(tmp_path / "new", "new")
    path = tmp_path / "ca.crt"
    shutil.copy(old.files.certificate, path)
    credentials = Credentials(ClientConfig("https://x", ca_file=path))
    before = _present(credentials).tls
    assert _present(credentials).tls is before
    shutil.copy(new.files.certificate, tmp_path / "next")
    (tmp_path / "next").replace(path)
    after = _present(credentials).tls
    assert (_trusted(before), _trusted(after)) == (["old"], ["new"])


def test_certificate_without_its_key_waits_for_it(tmp_path, caplog):
    authority = _authority(tmp_path / "ca", "ca")
    pairs = [KeyPair(tmp_path / f"{name}.crt", tmp_path / f"{name}.key") for name in ("one", "two")]
    for pair in pairs:
        authority.ensure_client(pair, "someone")
    one, two = pairs
    config = ClientConfig("https://x", insecure=True, cert_file=one.certificate, key_file=one.key)
    credentials = Credentials(config)
    before = _present(credentials).tls
    two.certificate.replace(one.certificate)
    with caplog.at_level(logging.WARNING, "kapi.client"):
        assert _present(credentials).tls is before
    assert "keeping the certificates" in caplog.text
    two.key.replace(one.key)
    assert _present(credentials).tls is not before
