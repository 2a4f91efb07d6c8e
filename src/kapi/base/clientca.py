"""Client certificates in TLS handshakes: of any issuer, with the names of the CAs that are preferred.

A client whose certificate is of a foreign CA, or has expired, has to be answered with a 401 Status, so its handshake
may not fail. OpenSSL accepts what the function set by `SSL_CTX_set_cert_verify_callback` accepts. Python's `ssl` has no
such setting: it verifies or it does not ask for a certificate.

A server that verifies client certificates can name the authorities it accepts in its CertificateRequest. Clients with
several certificates choose by these names, and client-go passes them to exec plug-ins. OpenSSL sends the list that
`SSL_CTX_set_client_CA_list` sets, which Python's `ssl` does not expose. What else was considered: a configuration file
for OpenSSL (`RequestCAFile`) applies to every context of the process and must exist before it starts; another TLS
library does not work with the transports of asyncio and uvloop. So both functions are called in the library that `_ssl`
is linked with, on the pointer that a context begins with. Where that is not possible, clients are asked for a
certificate without a hint, and a certificate of a foreign CA fails the handshake.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from pathlib import Path


_VERIFY: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_accept: Final = _VERIFY(lambda _store, _argument: 1)
"""Accepts every certificate. It is a constant of the module, because contexts of OpenSSL do not keep it alive."""


def accept_any_certificate(context: ssl.SSLContext) -> bool:
    """Accept every client certificate in the handshakes of a context; returns True if OpenSSL verifies none."""
    found = _open(context)
    if found is None or not hasattr(found[0], "SSL_CTX_set_cert_verify_callback"):
        return False
    library, pointer = found
    install = library.SSL_CTX_set_cert_verify_callback
    install.argtypes, install.restype = [ctypes.c_void_p, _VERIFY, ctypes.c_void_p], None
    install(pointer, _accept, None)
    return True


def name_client_authorities(context: ssl.SSLContext, authorities: Sequence[Path]) -> bool:
    """Name the authorities of PEM files in the handshakes of a context; returns True if the handshakes name them."""
    found = _open(context)
    if found is None:
        return False
    library, pointer = found
    try:
        read, add, set_list = (
            library.SSL_load_client_CA_file,
            library.SSL_add_file_cert_subjects_to_stack,
            library.SSL_CTX_set_client_CA_list,
        )
    except AttributeError:
        return False
    read.argtypes, read.restype = [ctypes.c_char_p], ctypes.c_void_p
    add.argtypes, add.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int
    set_list.argtypes, set_list.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    first, *others = authorities
    names = read(os.fsencode(first))
    if not names:
        return False
    for path in others:
        add(names, os.fsencode(path))
    # The context owns the list from here on.
    set_list(pointer, names)
    return True


def _open(context: ssl.SSLContext) -> tuple[ctypes.CDLL, int] | None:
    """Return OpenSSL and its pointer of a context; None where they cannot be reached."""
    try:
        library = _library()
        verify_mode = library.SSL_CTX_get_verify_mode
    except (ImportError, OSError, AttributeError):
        return None
    verify_mode.argtypes, verify_mode.restype = [ctypes.c_void_p], ctypes.c_int
    # The C structure of an SSLContext is the object's head, then its SSL_CTX pointer: so in every CPython since 3.2.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    return (library, pointer) if pointer and verify_mode(pointer) == context.verify_mode else None


def _library() -> ctypes.CDLL:
    """Return the library in which `_ssl` finds OpenSSL's functions."""
    import _ssl

    return ctypes.CDLL(getattr(_ssl, "__file__", None))
