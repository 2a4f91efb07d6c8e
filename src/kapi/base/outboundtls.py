"""TLS to other servers: the certificates that Go's client would trust, and its words for what fails.

Errors read as those of Go's client, because that is what people search for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl

from kapi.base.clock import SystemClock

_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})
_OUT_OF_DATE = frozenset({9, 10})
_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's numbers for why a certificate is refused."""


def trusting_context(authority: bytes) -> ssl.SSLContext:
    """Return a context that trusts what Go would trust, for these authorities; for none, those of the machine."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") if authority else None)
    except (ssl.SSLError, ValueError):
        raise ValueError("unable to load root certificates: unable to parse bytes as PEM block") from None
    # Whatever is in the bundle is trusted, be it the server's own certificate; names are in subjectAltName or nowhere.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def has_other_name(error: Exception) -> bool:
    """Return True if a certificate is refused because it is for another name."""
    return getattr(error, "verify_code", 0) in _OTHER_NAME


async def shown_certificate(host: str, port: int, name: str) -> bytes:
    """Return the certificate that a server shows, in DER, whatever it is; empty if there is none.

    For error messages: OpenSSL does not give out one that it has refused. Nothing is sent to the server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except OSError:
        return b""
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return certificate or b""


def certificate_reason(error: Exception, host: str, certificate: bytes = b"") -> str:
    """Return why a server's certificate is refused, as Go says it.

    `host` is the name it should have, `certificate` the one that was shown, if it is known.
    """
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if code in _OUT_OF_DATE:
        now = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"certificate has expired or is not yet valid: current time {now}"
    if code in _OTHER_NAME:
        return _name_reason(certificate, host) if certificate else f"certificate is not valid for {host}"
    return str(getattr(error, "verify_message", "") or error)


def _name_reason(certificate: bytes, host: str) -> str:
    from cryptography import x509

    try:
        extensions = x509.load_der_x509_certificate(certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return "certificate relies on legacy Common Name field, use SANs instead"
    if _is_address(host):
        valid = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        if not valid:
            return f"cannot validate certificate for {host} because it doesn't contain any IP SANs"
    else:
        valid = names.get_values_for_type(x509.DNSName)
    if not valid:
        return f"certificate is not valid for any names, but wanted to match {host}"
    return f"certificate is valid for {', '.join(valid)}, not {host}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def os_reason(error: OSError) -> str:
    """Return the text of a system call's error, as Go says it."""
    return os.strerror(error.errno).lower() if error.errno else (str(error) or type(error).__name__).lower()


def tls_reason(error: OSError) -> str:
    """Return why there is no TLS connection, as Go says it."""
    reason = getattr(error, "reason", "") or ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {reason.replace('_', ' ').lower() or os_reason(error)}"
