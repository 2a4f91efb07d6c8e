"""Verification of client certificates, by the rules of Go's crypto/x509."""

import datetime as dt
import shutil
import ssl
import subprocess

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certificates import DAY, Issued, issue, new_authority
from kapi.base.trust import MAX_SIGNATURES, Authorities, UntrustedCertificate, subject

NOW = dt.datetime.now(dt.UTC)
CA = new_authority()
SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
DOES_NOT_SIGN = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
ALTERNATIVE = x509.SubjectAlternativeName([x509.DNSName("a.example")])
CONSTRAINED = x509.NameConstraints(permitted_subtrees=[x509.DNSName("example")], excluded_subtrees=None)


def verify(leaf, *intermediates, trusted=(CA,), at=NOW):
    authorities = Authorities(b"".join(one.pem for one in trusted))
    return authorities.verify([leaf.der, *(one.der for one in intermediates)], at)


def test_certificate_of_a_trusted_authority_is_valid_until_the_first_end_of_its_chain():
    assert verify(CA.issue("bob", ends=DAY / 2)) == CA.issue("bob", ends=DAY / 2).certificate.not_valid_after_utc
    assert verify(CA.issue("bob", ends=9 * DAY)) == CA.certificate.not_valid_after_utc


def test_each_authority_of_a_bundle_is_trusted():
    other = new_authority("other")
    for issuer in (CA, other):
        verify(issuer.issue("bob"), trusted=(CA, other))


def test_chain_through_intermediates_is_found_in_any_order():
    upper = CA.issue("upper", authority=True)
    lower = upper.issue("lower", authority=True)
    leaf = lower.issue("bob")
    verify(leaf, lower, upper)
    verify(leaf, upper, lower)
    # An authority below the root can be trusted, too, as can the leaf itself.
    verify(leaf, lower, trusted=(upper,))
    verify(leaf, trusted=(leaf,))
    with pytest.raises(UntrustedCertificate, match="unknown authority"):
        verify(leaf, lower)


def test_authority_with_the_same_name_and_another_key_does_not_hide_the_right_one():
    double = new_authority()
    verify(CA.issue("bob"), trusted=(double, CA))
    with pytest.raises(UntrustedCertificate, match="unknown authority"):
        verify(CA.issue("bob"), trusted=(double,))


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"ends": -DAY / 2}, "it has expired"),
        ({"begins": DAY / 2}, "it is not valid yet"),
        ({"usages": [ExtendedKeyUsageOID.SERVER_AUTH]}, "incompatible key usage"),
        ({"more": [(UNKNOWN, True)]}, "unhandled critical extension"),
    ],
)
def test_certificate_that_authenticates_no_client_is_refused(details, reason):
    with pytest.raises(UntrustedCertificate, match=reason):
        verify(CA.issue("bob", **details))


@pytest.mark.parametrize(
    "details",
    [
        {"usages": ()},
        {"usages": [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]},
        {"usages": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]},
        {"more": [(UNKNOWN, False)]},
        {"constraints": False},
    ],
)
def test_certificate_that_does_not_exclude_clients_is_valid(details):
    verify(CA.issue("bob", **details))


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"authority": False, "usages": ()}, "not authorized to sign"),
        ({"authority": True, "more": [(DOES_NOT_SIGN, True)]}, "not authorized to sign"),
        ({"authority": True, "ends": -DAY / 2}, "it has expired"),
        (
            {"authority": True, "more": [(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)]},
            "incompatible key usage",
        ),
        ({"constraints": False, "usages": ()}, "not authorized to sign"),
    ],
)
def test_chain_through_a_certificate_that_may_not_issue_is_refused(details, reason):
    between = CA.issue("between", **details)
    with pytest.raises(UntrustedCertificate, match=reason):
        verify(between.issue("bob"), between)


def test_authority_that_says_it_signs_is_valid():
    between = CA.issue("between", authority=True, more=[(SIGNS, True)])
    verify(between.issue("bob"), between)


def test_path_length_is_enforced():
    root = new_authority("short", path_length=0)
    verify(root.issue("bob"), trusted=(root,))
    between = root.issue("between", authority=True)
    with pytest.raises(UntrustedCertificate, match="too many intermediates"):
        verify(between.issue("bob"), between, trusted=(root,))


def test_name_constraints_refuse_certificates_with_alternative_names_only():
    root = new_authority("constrained", more=[(CONSTRAINED, True)])
    verify(root.issue("bob"), trusted=(root,))
    with pytest.raises(UntrustedCertificate, match="name constraints"):
        verify(root.issue("bob", more=[(ALTERNATIVE, False)]), trusted=(root,))


def test_signature_that_does_not_match_is_refused():
    signed = bytearray(CA.issue("bob").der)
    signed[-1] ^= 1
    with pytest.raises(UntrustedCertificate):
        Authorities(CA.pem).verify([bytes(signed)], NOW)


def test_self_signed_certificate_is_refused():
    with pytest.raises(UntrustedCertificate, match="unknown authority"):
        verify(issue("bob"))


def test_search_is_bounded():
    key = CA.key
    # Every one of these could have issued every other: the search of all orders would not end.
    doubles = [issue("loop", authority=True, key=key, ends=DAY * n) for n in range(1, 12)]
    leaf = doubles[0].issue("bob")
    with pytest.raises(UntrustedCertificate, match="attempts limit reached") as caught:
        verify(leaf, *doubles, trusted=(new_authority("elsewhere"),))
    assert MAX_SIGNATURES == 100
    assert "bob" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x30\x03\x02\x01\x01"])
def test_unreadable_certificates_are_refused(data):
    with pytest.raises(UntrustedCertificate, match="malformed"):
        Authorities(CA.pem).verify([data], NOW)


def test_file_without_certificates_is_refused_by_name(tmp_path):
    path = tmp_path / "ca.crt"
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"ca\.crt: no certificates can be read"):
        Authorities.read(path)


def test_subject_names_user_groups_and_uid():
    uid = x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), "u-1")
    who = subject(CA.issue("alice", ["devs", "admins"], attributes=[uid]).der)
    assert (who.common_name, who.organizations, who.uid) == ("alice", ("devs", "admins"), "u-1")
    assert subject(CA.issue("", ["devs"]).der).common_name == ""
    with pytest.raises(ValueError, match="one UID"):
        subject(CA.issue("alice", attributes=[uid, uid]).der)
    with pytest.raises(ValueError):
        subject(b"garbage")


def signed_by_openssl(folder, *options):
    """A certificate without extensions, of version 1 or 3 as the program likes."""
    files = CA.write(folder, "ca")

    def openssl(*command):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True, timeout=30)

    openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "a.key", "-subj", "/CN=bob", "-out", "a.csr")
    signer = ["-CA", files.certificate, "-CAkey", files.key, "-set_serial", "1"]
    openssl("x509", "-req", "-in", "a.csr", *signer, "-out", "a.crt", *options)
    return ssl.PEM_cert_to_DER_cert((folder / "a.crt").read_text())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_certificate_of_a_client_without_extensions_is_valid(tmp_path):
    der = signed_by_openssl(tmp_path)
    Authorities(CA.pem).verify([der], dt.datetime.now(dt.UTC))
    assert subject(der).common_name == "bob"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_weak_signature_is_refused(tmp_path):
    der = signed_by_openssl(tmp_path, "-sha1")
    with pytest.raises(UntrustedCertificate, match="insecure algorithm sha1"):
        Authorities(CA.pem).verify([der], dt.datetime.now(dt.UTC))


def test_intermediates_beyond_the_bound_are_not_read():
    verify(CA.issue("bob"), *[Issued(CA.certificate, CA.key)] * 50)
