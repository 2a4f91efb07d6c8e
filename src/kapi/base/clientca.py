"""The names of the acceptable client CAs in a TLS handshake.

A server that verifies client certificates can name the authorities it accepts in its CertificateRequest. Clients with
several certificates choose by these names, and client-go passes them to exec plug-ins. OpenSSL sends the list that
`SSL_CTX_set_client_CA_list` sets, which Python's `ssl` does not expose. What else was considered: a configuration file
for OpenSSL (`RequestCAFile`) applies to every context of the process and must exist before it starts; another TLS
library does not work with the transports of asyncio and uvloop. So the function is called in the library that `_ssl` is
linked with, on the pointer that a context begins with. Where that is not possible nothing changes: clients are asked
for a certificate without a hint.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from pathlib import Path


def name_client_authorities(context: ssl.SSLContext, authorities: Path) -> bool:
    """Name the authorities of a PEM file in the handshakes of a context; returns True if the handshakes name them."""
    try:
        library = _library()
        read, verify_mode, set_list = (
            library.SSL_load_client_CA_file,
            library.SSL_CTX_get_verify_mode,
            library.SSL_CTX_set_client_CA_list,
        )
    except (ImportError, OSError, AttributeError):
        return False
    read.argtypes, read.restype = [ctypes.c_char_p], ctypes.c_void_p
    verify_mode.argtypes, verify_mode.restype = [ctypes.c_void_p], ctypes.c_int
    set_list.argtypes, set_list.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    # The C structure of an SSLContext is the object's head, then its SSL_CTX pointer: so in every CPython since 3.2.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    if not pointer or verify_mode(pointer) != context.verify_mode:
        return False
    names = read(os.fsencode(authorities))
    if not names:
        return False
    # The context owns the list from here on.
    set_list(pointer, names)
    return True


def _library() -> ctypes.CDLL:
    """Return the library in which `_ssl` finds OpenSSL's functions."""
    import _ssl

    return ctypes.CDLL(getattr(_ssl, "__file__", None))
