"""Verification of client certificates against certificate authorities, by the rules of Go's crypto/x509.

TLS libraries can do this during the handshake, and then end the connection. An API server has to answer such a client
with 401, re-read its authorities, and tell one set of authorities from another (clients, front proxies), so a
certificate is accepted by TLS and verified here. What else was considered: the verifier of `cryptography` enforces the
profile of public web authorities, which certificates of clusters seldom follow (version 1, no alternative names); and
OpenSSL's is out of reach of Python's `ssl`. Only the signature checks themselves are from `cryptography`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cryptography import x509

    T = TypeVar("T", bound=x509.ExtensionType)

MAX_SIGNATURES: Final = 100
"""Signatures that are checked for one certificate; a chain that needs more is refused."""
MAX_INTERMEDIATES: Final = 10
"""Intermediate certificates of a client that are looked at."""

_WEAK_HASHES: Final = frozenset({"md5", "sha1"})
_UID: Final = "1.3.6.1.4.1.57683.2"
"""The attribute of a subject that is the uid of a user, as Kubernetes assigned it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a client certificate."""

    common_name: str
    organizations: tuple[str, ...]
    uid: str = ""


def subject(der: bytes) -> Subject:
    """Read the subject of a certificate; `ValueError` if it cannot be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    name = x509.load_der_x509_certificate(der).subject

    def values(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(one.value) for one in name.get_attributes_for_oid(oid))

    uids = values(x509.ObjectIdentifier(_UID))
    if len(uids) > 1 or uids == ("",):
        raise ValueError("expected one UID that is not empty")
    return Subject("".join(values(NameOID.COMMON_NAME)[-1:]), values(NameOID.ORGANIZATION_NAME), "".join(uids))


class UntrustedCertificate(Exception):
    """The certificate does not authenticate a client; the text says why, in the words of Go."""


class Authorities:
    """The certificate authorities of a PEM file; `ValueError` if there is none or one cannot be read."""

    def __init__(self, pem: bytes) -> None:
        from cryptography import x509

        self.pem = pem
        self._anchors = x509.load_pem_x509_certificates(pem)

    @classmethod
    def read(cls, path: Path) -> Authorities:
        """Read a file; `ValueError` names it."""
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: no certificates can be read: {error}") from None

    def overlap(self, other: Authorities) -> bool:
        """Return True if a certificate is in both sets."""
        return any(one in other._anchors for one in self._anchors)

    def verify(self, certificates: Sequence[bytes], at: dt.datetime) -> dt.datetime:
        """Verify a client's certificates in DER, its own first; return the time until which the chain is valid.

        Raises `UntrustedCertificate`.
        """
        from cryptography import x509

        try:
            leaf, *others = (x509.load_der_x509_certificate(one) for one in certificates[: 1 + MAX_INTERMEDIATES])
            return _Search(self._anchors, others, at).run(leaf)
        except ValueError as error:
            raise UntrustedCertificate(f"x509: malformed certificate: {error}") from None


class _Search:
    """A depth-first search for a valid chain from a leaf to a trust anchor."""

    def __init__(
        self, anchors: Sequence[x509.Certificate], intermediates: Sequence[x509.Certificate], at: dt.datetime
    ) -> None:
        self._anchors = anchors
        self._intermediates = intermediates
        self._at = at
        self._signatures = 0
        self._reason = "x509: certificate signed by unknown authority"

    def run(self, leaf: x509.Certificate) -> dt.datetime:
        """Return the end of the first valid chain's validity."""
        if problem := self._problem(leaf):
            raise UntrustedCertificate(problem)
        until = leaf.not_valid_after_utc if leaf in self._anchors else self._extend([leaf])
        if until is None:
            raise UntrustedCertificate(self._reason)
        return until

    def _extend(self, chain: list[x509.Certificate]) -> dt.datetime | None:
        """Return the end of validity of the first way from the end of a chain to an anchor; None if there is none."""
        for issuer, is_anchor in self._issuers(chain[-1]):
            if issuer in chain:
                continue
            problem = self._issuer_problem(issuer, chain, is_anchor=is_anchor) or self._problem(issuer)
            if problem := problem or self._signature_problem(chain[-1], issuer):
                self._reason = problem
                continue
            longer = [*chain, issuer]
            until = min(one.not_valid_after_utc for one in longer) if is_anchor else self._extend(longer)
            if until is not None:
                return until
        return None

    def _issuers(self, certificate: x509.Certificate) -> Iterator[tuple[x509.Certificate, bool]]:
        """The certificates that have the issuer's name, trust anchors first."""
        yield from ((one, True) for one in self._anchors if one.subject == certificate.issuer)
        yield from ((one, False) for one in self._intermediates if one.subject == certificate.issuer)

    def _problem(self, certificate: x509.Certificate) -> str:
        """Return why a certificate cannot be part of a chain of a client now; empty if it can."""
        if self._at < certificate.not_valid_before_utc:
            return "x509: certificate has expired or is not yet valid: it is not valid yet"
        if self._at > certificate.not_valid_after_utc:
            return "x509: certificate has expired or is not yet valid: it has expired"
        if not serves_clients(certificate):
            return "x509: certificate specifies an incompatible key usage"
        if any(one.critical and one.oid not in _handled_extensions() for one in certificate.extensions):
            return "x509: unhandled critical extension"
        return ""

    def _issuer_problem(self, issuer: x509.Certificate, chain: Sequence[x509.Certificate], *, is_anchor: bool) -> str:
        """Return why a certificate may not have signed the last one of a chain."""
        from cryptography import x509

        constraints = _extension(issuer, x509.BasicConstraints)
        if constraints is None:
            # A version 1 certificate cannot say that it is an authority: it counts where it is trusted as one.
            if not is_anchor or issuer.version is not x509.Version.v1:
                return "x509: certificate is not authorized to sign other certificates"
        elif not constraints.ca:
            return "x509: certificate is not authorized to sign other certificates"
        elif constraints.path_length is not None and len(chain) - 1 > constraints.path_length:
            return "x509: too many intermediates for path length constraint"
        usage = _extension(issuer, x509.KeyUsage)
        if usage is not None and not usage.key_cert_sign:
            return "x509: certificate is not authorized to sign other certificates"
        # Constraints apply to alternative names, which have no meaning for clients.
        if _extension(issuer, x509.NameConstraints) and _extension(chain[0], x509.SubjectAlternativeName):
            return "x509: name constraints are not supported for client certificates with alternative names"
        return ""

    def _signature_problem(self, certificate: x509.Certificate, issuer: x509.Certificate) -> str:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

        self._signatures += 1
        if self._signatures > MAX_SIGNATURES:
            raise UntrustedCertificate("x509: signature check attempts limit reached while verifying certificate chain")
        try:
            algorithm = certificate.signature_hash_algorithm
            if algorithm is not None and algorithm.name in _WEAK_HASHES:
                return f"x509: cannot verify signature: insecure algorithm {algorithm.name}"
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
            return "x509: certificate signed by unknown authority"
        return ""


def serves_clients(certificate: x509.Certificate) -> bool:
    """Return True if a certificate may authenticate a client: it says so, or does not restrict its use."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    usages = _extension(certificate, x509.ExtendedKeyUsage)
    return usages is None or any(one in (Usage.CLIENT_AUTH, Usage.ANY_EXTENDED_KEY_USAGE) for one in usages)


def _extension(certificate: x509.Certificate, kind: type[T]) -> T | None:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _handled_extensions() -> frozenset[x509.ObjectIdentifier]:
    from cryptography.x509.oid import ExtensionOID as Extension

    return frozenset(
        {
            Extension.AUTHORITY_KEY_IDENTIFIER,
            Extension.BASIC_CONSTRAINTS,
            Extension.CERTIFICATE_POLICIES,
            Extension.CRL_DISTRIBUTION_POINTS,
            Extension.EXTENDED_KEY_USAGE,
            Extension.KEY_USAGE,
            Extension.NAME_CONSTRAINTS,
            Extension.SUBJECT_ALTERNATIVE_NAME,
            Extension.SUBJECT_KEY_IDENTIFIER,
        }
    )
