"""What a request carries to say who sends it, and whom a connection trusts."""

import ssl

import pytest

from kapi.base.clock import ManualClock
from kapi.client import ClientConfig, ConfigError
from kapi.client.credentials import TOKEN_SECONDS, Credentials, tls_context


def _headers(**fields):
    return Credentials(ClientConfig("https://x", **fields)).headers()


def test_token_goes_before_a_password():
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


def test_token_file_is_read_again_when_it_is_old(tmp_path):
    path = tmp_path / "token"
    path.write_text("one\n")
    clock = ManualClock()
    credentials = Credentials(ClientConfig("https://x", token_file=path), clock=clock)
    assert credentials.headers() == [("Authorization", "Bearer one")]
    path.write_text("two")
    assert credentials.headers() == [("Authorization", "Bearer one")]
    clock.advance(TOKEN_SECONDS + 1)
    assert credentials.headers() == [("Authorization", "Bearer two")]
    path.unlink()
    clock.advance(TOKEN_SECONDS + 1)
    assert credentials.headers() == [("Authorization", "Bearer two")]


def test_missing_token_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"token file .*gone"):
        _headers(token_file=tmp_path / "gone")


def test_nothing_secret_goes_where_anybody_can_read_it():
    with pytest.raises(ConfigError, match="not https"):
        Credentials(ClientConfig("http://x", token="t"))
    assert Credentials(ClientConfig("http://x")).headers() == []


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
