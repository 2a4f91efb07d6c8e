"""Signed tokens, and the keys that verify them."""

import base64
import json
import shutil
import stat
import subprocess

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from certificates import new_authority
from kapi.base.jwt import (
    MAX_LENGTH,
    InvalidSignature,
    KeySet,
    SigningKey,
    UnknownKey,
    VerificationKey,
    read_public_keys,
    unverified_claims,
)

RSA = rsa.generate_private_key(65537, 2048)
KEYS = {"RS256": RSA} | {
    name: ec.generate_private_key(curve())
    for name, curve in {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}.items()
}
CLAIMS = {"sub": "x", "iss": "me", "aud": ["ü"]}


def private_pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def key(tmp_path):
    return SigningKey(tmp_path / "sa.key")


def signing(tmp_path, private):
    (tmp_path / "given.key").write_bytes(private_pem(private))
    return SigningKey(tmp_path / "given.key")


@pytest.mark.parametrize("algorithm", KEYS)
def test_signed_token_is_verified_and_names_its_key(tmp_path, algorithm):
    signer = signing(tmp_path, KEYS[algorithm])
    token = signer.sign(CLAIMS)
    assert KeySet([signer.public]).verify(token) == CLAIMS
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": signer.public.id}
    # Claims are written as Go writes a map.
    assert base64.urlsafe_b64decode(token.split(".")[1] + "==") == '{"aud":["ü"],"iss":"me","sub":"x"}'.encode()


@pytest.mark.parametrize("algorithm", KEYS)
def test_published_key_verifies_tokens_of_another_implementation(tmp_path, algorithm):
    signer = signing(tmp_path, KEYS[algorithm])
    published = jwt.PyJWK(signer.public.jwk())
    assert jwt.decode(signer.sign({"sub": "x"}), published, [algorithm]) == {"sub": "x"}
    names = (
        ["use", "kty", "kid", "alg", "n", "e"]
        if algorithm == "RS256"
        else ["use", "kty", "kid", "crv", "alg", "x", "y"]
    )
    assert list(signer.public.jwk()) == names


def test_key_is_made_for_its_owner_only_and_found_again(key, tmp_path):
    token = key.sign(CLAIMS)
    assert KeySet([SigningKey(tmp_path / "sa.key").public]).verify(token) == CLAIMS
    assert stat.S_IMODE((tmp_path / "sa.key").stat().st_mode) == 0o600


def test_no_key_is_written_before_it_is_needed(key, tmp_path):
    assert not (tmp_path / "sa.key").exists()


@pytest.mark.parametrize("part", [0, 1, 2])
def test_changed_token_is_refused(key, part):
    parts = key.sign(CLAIMS).split(".")
    parts[part] = parts[part][:5] + ("A" if parts[part][5] != "A" else "B") + parts[part][6:]
    with pytest.raises(InvalidSignature):
        KeySet([key.public]).verify(".".join(parts))


def test_token_without_a_key_id_is_tried_with_every_key(key):
    token = jwt.encode(CLAIMS, RSA, "RS256")
    assert KeySet([key.public, VerificationKey(RSA.public_key())]).verify(token) == CLAIMS


@pytest.mark.parametrize("kid", ["../../etc/passwd", "'; drop table keys; --", "x" * 10_000, "\u00fc", "%2e%2e"])
def test_token_of_an_unknown_key_is_refused(key, kid):
    with pytest.raises(UnknownKey, match=r"^invalid signature, no keys found$"):
        KeySet([key.public]).verify(jwt.encode(CLAIMS, RSA, "RS256", {"kid": kid}))


def test_other_algorithms_than_that_of_the_key_are_refused(key):
    keys = KeySet([VerificationKey(RSA.public_key()), key.public])
    head = {"kid": keys.keys[0].id}
    forged = [
        jwt.encode(CLAIMS, None, "none", head),
        jwt.encode(CLAIMS, RSA, "RS512", head),
        jwt.encode(CLAIMS, RSA, "PS256", head),
        _hmac_with_public_key(head),
    ]
    for token in forged:
        with pytest.raises(InvalidSignature):
            keys.verify(token)


def _hmac_with_public_key(head):
    """A token whose secret is the public key, for verifiers that take the algorithm from the token."""
    import hashlib
    import hmac

    parts = [{"alg": "HS256", **head}, CLAIMS]
    signed = ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts)
    digest = hmac.new(public_pem(RSA), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "token", ["", "a", "a.b.c", "..", "é.é.é", "x" * (MAX_LENGTH + 1), "bnVsbA.bnVsbA.", "e30.e30.e30", "W10.W10.W10"]
)
def test_text_that_is_no_token_is_refused(key, token):
    with pytest.raises(InvalidSignature):
        KeySet([key.public]).verify(token)


def test_claims_that_are_no_object_are_refused(tmp_path):
    token = jwt.PyJWS().encode(b"[1]", RSA, "RS256")
    with pytest.raises(InvalidSignature):
        KeySet([VerificationKey(RSA.public_key())]).verify(token)
    assert unverified_claims(token) is None


def test_unverified_claims_are_read_without_a_key(key):
    assert unverified_claims(key.sign(CLAIMS)) == CLAIMS
    for text in ("", "a.b", "a.!.c", "a.e30.c.d", "é.é.é", f"a.{base64.b64encode(b'[' * 100_000).decode()}.c"):
        assert unverified_claims(text) is None


def test_key_file_holds_keys_of_several_kinds(tmp_path):
    path, certificate = tmp_path / "keys.pem", new_authority()
    path.write_bytes(b"note\n" + public_pem(RSA) + private_pem(KEYS["ES256"]) + certificate.pem)
    expected = [RSA.public_key(), KEYS["ES256"].public_key(), certificate.key.public_key()]
    assert [key.key for key in read_public_keys(path)] == expected


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_key_files_of_openssl_are_read(tmp_path):
    path = tmp_path / "ec.key"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-out", path], check=True, timeout=30)
    assert "EC PARAMETERS" in path.read_text()
    assert read_public_keys(path)[0].id == SigningKey(path).public.id
    rsa_path = tmp_path / "rsa.key"
    command = ["openssl", "genrsa", "-traditional", "-out", rsa_path, "2048"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    assert SigningKey(rsa_path).public.algorithm == "RS256"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", r"keys\.pem: no keys in PEM"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", r"keys\.pem: PEM block 1 \(PUBLIC KEY\)"),
        (public_pem(ed25519.Ed25519PrivateKey.generate()), "neither an RSA key nor an elliptic curve key"),
        (public_pem(ec.generate_private_key(ec.SECP256K1())), "neither an RSA key nor an elliptic curve key"),
    ],
)
def test_key_file_that_cannot_be_used_is_refused_by_name(tmp_path, content, reason):
    path = tmp_path / "keys.pem"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_public_keys(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"-----BEGIN NONSENSE-----\n", r"sa\.key holds no key that can be read"),
        (private_pem(ed25519.Ed25519PrivateKey.generate()), r"sa\.key is neither an RSA key nor"),
        (private_pem(ec.generate_private_key(ec.SECP256K1())), r"sa\.key: neither an RSA key nor"),
    ],
)
def test_signing_key_that_cannot_be_used_is_refused_by_name(tmp_path, content, reason):
    (tmp_path / "sa.key").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        SigningKey(tmp_path / "sa.key").sign({})
