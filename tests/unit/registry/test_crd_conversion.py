from __future__ import annotations

import base64

import pytest
from crd_support import definition, stored, update
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.tls import Authority, KeyPair
from kapi.registry.kinds.apiextensions.conditions import is_true
from kapi.registry.kinds.apiextensions.conversion import bundle_problem

NOT_PEM = "unable to load root certificates: unable to parse bytes as PEM block"
NO_CERTIFICATE = "unable to load root certificates: no valid certificate authority data seen"
MALFORMED = "unable to load root certificates: failed to parse certificate: x509: malformed certificate"


def bundle(text: bytes) -> str:
    return base64.b64encode(text).decode()


def block(label: str, content: str = "AAAA") -> bytes:
    return f"-----BEGIN {label}-----\n{content}\n-----END {label}-----\n".encode()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    place = tmp_path_factory.mktemp("authority")
    files = KeyPair(place / "ca.crt", place / "ca.key")
    Authority.ensure(files, "authority")
    return files.certificate.read_bytes()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", ""),
        (b"foo", NOT_PEM),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n", NOT_PEM),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END KEY-----\n", NOT_PEM),
        (b"-----BEGIN ", NOT_PEM),
        (block("PRIVATE KEY"), NO_CERTIFICATE),
        (block("CERTIFICATE"), MALFORMED),
        (block("CERTIFICATE", "***"), MALFORMED),
    ],
)
def test_an_invalid_ca_bundle_has_a_reason(text, problem):
    assert bundle_problem(bundle(text)) == problem


def test_one_good_certificate_among_others_is_enough(certificate):
    for text in (certificate, block("PRIVATE KEY") + b"a note\n" + certificate, block("CERTIFICATE") + certificate):
        assert bundle_problem(bundle(text)) == ""


@given(st.lists(st.sampled_from([b"-----BEGIN A-----\n", b"-----END A-----\n", b"-----BEGIN ", b"-----", b"x\n"])))
def test_random_ca_bundles_are_accepted_or_refused(parts):
    assert bundle_problem(bundle(b"".join(parts))) in ("", NOT_PEM, NO_CERTIFICATE)


def test_a_bundle_of_nothing_but_beginnings_is_read_once():
    assert bundle_problem(bundle(b"-----BEGIN CERTIFICATE-----\n" * 50_000 + b"-----END KEY-----")) == NOT_PEM


def test_a_definition_with_good_certificates_is_established_and_may_not_lose_them(certificate):
    def converted(ca):
        config = {"url": "https://example.com", "caBundle": ca}
        webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
        return definition(conversion={"strategy": "Webhook", "webhook": webhook})

    old = stored(converted(bundle(certificate)))
    assert is_true(old, "Established")
    _, errors = update(converted(bundle(b"foo")), old)
    assert [(error.field, error.body) for error in errors] == [
        ("spec.conversion.webhookClientConfig.caBundle", f'Invalid value: "Zm9v": {NOT_PEM}')
    ]
