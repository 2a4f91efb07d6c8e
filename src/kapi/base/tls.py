"""Certificates and TLS contexts: an authority of our own, what it issues, and how both ends of a connection use it.

Certificates are files, so that other programs can use them. Keys are readable by their owner only, files appear whole
or not at all, and asking for a certificate that is there, fits and is good for a while changes nothing. Issuing needs
the `cryptography` package, which only servers have; contexts need the standard library alone.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import secrets
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kapi.base.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

    from kapi.base.clock import Clock

    AuthorityKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

AUTHORITY_LIFE = dt.timedelta(days=3650)
LEAF_LIFE = dt.timedelta(days=365)
RENEW_BEFORE = dt.timedelta(days=30)
_DER: Final = 2
"""The number by which Python's `_ssl` knows the encoding DER."""
BACKDATED = dt.timedelta(minutes=5)
"""Certificates begin a little in the past, for peers whose clocks are behind."""


def local_names() -> tuple[str, ...]:
    """Return the names and addresses by which clients on this machine reach it."""
    return ("localhost", "127.0.0.1", "::1", socket.gethostname())


def service_names(service: str, namespace: str, domain: str) -> tuple[str, ...]:
    """The names under which a service is found from inside a cluster, shortest first."""
    qualified = f"{service}.{namespace}"
    return (service, qualified, f"{qualified}.svc", f"{qualified}.svc.{domain}")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path

    def exists(self) -> bool:
        """Return True if there is a certificate; the key is always written first."""
        return self.certificate.exists()


class Authority:
    """A certificate authority. `files.certificate` is what peers need in order to trust what it issues."""

    def __init__(self, files: KeyPair, certificate: x509.Certificate, key: AuthorityKey, clock: Clock) -> None:
        self.files = files
        self._certificate = certificate
        self._key = key
        self._clock = clock

    @classmethod
    def ensure(cls, files: KeyPair, common_name: str, *, clock: Clock | None = None) -> Authority:
        """Return the authority in `files`, created if there is none. Its key may be an elliptic curve key or RSA.

        Near its end the certificate is renewed with the same name and key, so that what was issued stays valid. A
        certificate whose key is missing or another one is an error: a new authority would lock out every client that
        trusts the old one.
        """
        clock = clock or SystemClock()
        if not files.exists():
            return cls._write(files, _name(common_name, ()), _new_key(), clock)
        certificate, key = _load(files)
        if certificate.not_valid_after_utc - clock.now() < RENEW_BEFORE:
            return cls._write(files, certificate.subject, key, clock)
        return cls(files, certificate, key, clock)

    @classmethod
    def _write(cls, files: KeyPair, name: x509.Name, key: AuthorityKey, clock: Clock) -> Authority:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        until = clock.now() + AUTHORITY_LIFE
        certificate = (
            _builder(name, name, key.public_key(), clock.now(), until)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(authority=True), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _store(files, certificate, key)
        return cls(files, certificate, key, clock)

    def ensure_server(self, files: KeyPair, names: Iterable[str]) -> None:
        """A server certificate for `names` (host names and addresses), issued if there is none that fits."""
        wanted = tuple(dict.fromkeys(name for name in names if name))
        self._ensure(files, _name(wanted[0], ()), wanted, server=True)

    def ensure_client(self, files: KeyPair, common_name: str, organizations: Sequence[str] = ()) -> None:
        """A client certificate, issued if there is none that fits."""
        self._ensure(files, _name(common_name, organizations), (), server=False)

    def sign(self, request: x509.CertificateSigningRequest, usages: Collection[str], life: dt.timedelta) -> bytes:
        """Return the PEM of a certificate for a request: its subject, names and key, and these usages of it.

        Nothing else that the request asks for is granted. The certificate ends no later than that of the authority.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization

        now = self._clock.now()
        until = min(now + life, self._certificate.not_valid_after_utc)
        extended = [usage for name, usage in _extended_usages().items() if name in usages]
        builder = (
            _builder(request.subject, self._certificate.subject, request.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_requested_key_usage(usages), critical=True)
            .add_extension(self._key_identifier(), critical=False)
        )
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        with contextlib.suppress(x509.ExtensionNotFound):
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=names.critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _ensure(self, files: KeyPair, name: x509.Name, names: tuple[str, ...], *, server: bool) -> None:
        # Whatever is wrong with the files that are there, the cure is a new certificate.
        with contextlib.suppress(OSError, ValueError):
            certificate, _ = _load(files)
            if self._fits(certificate, name, names):
                return
        self._issue(files, name, names, server=server)

    def _fits(self, certificate: x509.Certificate, name: x509.Name, names: tuple[str, ...]) -> bool:
        if certificate.subject != name or set(_alternative_names(certificate)) != {_canonical(name) for name in names}:
            return False
        if certificate.not_valid_after_utc - self._clock.now() < RENEW_BEFORE:
            return False
        from cryptography.exceptions import InvalidSignature

        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        """Return the identifier by which issued certificates name the authority's key: the one in its certificate."""
        from cryptography import x509

        try:
            own = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)

    def _issue(self, files: KeyPair, name: x509.Name, names: tuple[str, ...], *, server: bool) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        now = self._clock.now()
        until = min(now + LEAF_LIFE, self._certificate.not_valid_after_utc)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(name, self._certificate.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(self._key_identifier(), critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        _store(files, builder.sign(self._key, hashes.SHA256()), key)


def server_context(files: KeyPair, *, client_authorities: Sequence[Path] = ()) -> ssl.SSLContext:
    """Return the context of a server: TLS 1.2 or newer, HTTP/1.1 only.

    With `client_authorities` (PEM files), clients are asked for a certificate, and the names of the authorities are in
    the handshake. A certificate of any issuer is accepted; authentication verifies it, see `kapi.base.trust`. To
    replace the server's certificate, call `load_cert_chain` on the same context: it is used for connections from then
    on.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.certificate, files.key)
    if client_authorities:
        context.verify_mode = ssl.CERT_OPTIONAL
        # Imported here, because it loads ctypes, which clients can do without.
        from kapi.base.clientca import accept_any_certificate

        accept_any_certificate(context)
        trust_clients_of(context, client_authorities)
    return context


def trust_clients_of(context: ssl.SSLContext, authorities: Sequence[Path]) -> None:
    """Name these authorities to clients in the handshakes of a server from now on."""
    from kapi.base.clientca import name_client_authorities

    for path in authorities:
        # For where OpenSSL verifies, see `accept_any_certificate`; an authority that was removed is trusted by it
        # until the server is started again, and refused by those who verify after it.
        context.load_verify_locations(path)
    name_client_authorities(context, authorities)


def client_certificates(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """Return the certificates that the client of a connection has shown, in DER, its own first."""
    own = connection.getpeercert(binary_form=True)
    if own is None:
        return ()
    # Public in Python 3.13, the same underneath before.
    inner: Any = getattr(connection, "_sslobj", None)
    shown = inner.get_unverified_chain() if inner is not None else None
    return (own, *(one.public_bytes(_DER) for one in (shown or ())[1:]))


def client_context(authority: Path | None = None, *, files: KeyPair | None = None) -> ssl.SSLContext:
    """Return the context of a client, which checks names and trusts `authority` alone (without one, the system's).

    `files` is the certificate to show, if any.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; it appears whole or not at all."""
    _write_file(path, data, 0o600)


def ensure_private_key(path: Path) -> AuthorityKey:
    """Return the key in a file (PEM), made when there is none; `ValueError` when what is there is no such key."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        _write_key(path, _new_key())
    data = path.read_bytes()
    try:
        # OpenSSL writes the parameters of a curve in front of the key, which has them, too.
        key = load_pem_private_key(data[max(data.rfind(b"-----BEGIN"), 0) :], password=None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no key that can be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"{path} is neither an RSA key nor an elliptic curve key")  # noqa: TRY004 (a file, not a type)
    return key


def _write_file(path: Path, data: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - opened by descriptor, for its mode
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _write_key(path: Path, key: AuthorityKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _load(files: KeyPair) -> tuple[x509.Certificate, AuthorityKey]:
    """Read both files; `ValueError` if they do not belong together."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    key = load_pem_private_key(files.key.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"{files.key} is neither an RSA key nor an elliptic curve key")  # noqa: TRY004 (a file, not a type)
    if key.public_key() != certificate.public_key():
        raise ValueError(f"{files.key} is not the key of {files.certificate}")
    return certificate, key


def _store(files: KeyPair, certificate: x509.Certificate, key: AuthorityKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    _write_key(files.key, key)
    _write_file(files.certificate, certificate.public_bytes(Encoding.PEM), 0o644)


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    name: x509.Name, issuer: x509.Name, key: CertificatePublicKeyTypes, now: dt.datetime, until: dt.datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _requested_key_usage(usages: Collection[str]) -> x509.KeyUsage:
    """Return the key usage of a certificate in Kubernetes' words; never that of an authority."""
    from cryptography import x509

    agreement = "key agreement" in usages
    return x509.KeyUsage(
        digital_signature="digital signature" in usages or "signing" in usages,
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement=agreement,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=agreement and "encipher only" in usages,
        decipher_only=agreement and "decipher only" in usages,
    )


def _extended_usages() -> dict[str, x509.ObjectIdentifier]:
    from cryptography.x509.oid import ExtendedKeyUsageOID

    return {
        "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
        "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
        "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
        "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    }


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.lower())


def _alternative_names(certificate: x509.Certificate) -> list[str]:
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]
