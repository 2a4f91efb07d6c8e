"""Signed tokens."""

import stat

import jwt
import pytest

from kapi.base.jwt import MAX_LENGTH, SigningKey


@pytest.fixture
def key(tmp_path):
    return SigningKey(tmp_path / "sa.key")


def test_signed_tokens_are_verified(key, tmp_path):
    token = key.sign({"iss": "me", "sub": "x"})
    assert key.verify(token, "me") == {"iss": "me", "sub": "x"}
    assert SigningKey(tmp_path / "sa.key").verify(token, "me") == {"iss": "me", "sub": "x"}
    assert stat.S_IMODE((tmp_path / "sa.key").stat().st_mode) == 0o600
    assert jwt.get_unverified_header(token)["kid"]


def test_no_key_is_written_before_the_first_signature(key, tmp_path):
    assert not (tmp_path / "sa.key").exists()
    assert key.verify("a.b.c", "me") is None


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_token_is_refused(key, part):
    parts = key.sign({"iss": "me", "sub": "x"}).split(".")
    parts[part] = parts[part][:5] + ("A" if parts[part][5] != "A" else "B") + parts[part][6:]
    assert key.verify(".".join(parts), "me") is None


def test_tokens_of_other_issuers_are_refused(key, tmp_path):
    other = SigningKey(tmp_path / "other.key")
    assert key.verify(other.sign({"iss": "me"}), "me") is None
    assert key.verify(key.sign({"iss": "you"}), "me") is None
    assert key.verify(key.sign({"iss": "me", "exp": 1}), "me") is None
    assert key.verify(jwt.encode({"iss": "me"}, None, "none"), "me") is None
    assert key.verify(jwt.encode({"iss": "me"}, "a" * 32, "HS256"), "me") is None
    assert key.verify("x" * (MAX_LENGTH + 1), "me") is None


def test_a_key_file_with_other_content_is_an_error(tmp_path):
    (tmp_path / "sa.key").write_text("-----BEGIN NONSENSE-----\n")
    with pytest.raises(ValueError, match=r"sa\.key holds no key that can be read"):
        SigningKey(tmp_path / "sa.key").sign({})
