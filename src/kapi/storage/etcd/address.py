"""The address of a store on etcd: `etcd://HOST:PORT,HOST:PORT/PREFIX?cacert=FILE&cert=FILE&key=FILE&user=NAME&…`.

One text names everything that is needed to reach a store, so that every command takes it in one option. The names of
the parameters are those of etcdctl. No I/O: files are read when the store is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

SCHEME: Final = "etcd://"
DEFAULT_PORT: Final = 2379
DEFAULT_PREFIX: Final = "/kapi"
DEFAULT_TIMEOUT: Final = 10.0

_EXAMPLE: Final = "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/kapi?cacert=ca.crt&cert=client.crt&key=client.key"
_PARAMETERS: Final = ("cacert", "cert", "key", "user", "password-file", "timeout")


class AddressError(ValueError):
    """An address that cannot be used; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is, and how to reach it."""

    endpoints: tuple[str, ...]
    """HOST:PORT of each member that is asked, in the order in which they are tried."""
    prefix: str = DEFAULT_PREFIX
    """What every key of the store begins with."""
    ca_file: Path | None = None
    """The authority of the members' certificates; with it, connections use TLS."""
    cert_file: Path | None = None
    key_file: Path | None = None
    """The certificate by which members know the client, and its key."""
    user: str = ""
    password_file: Path | None = None
    timeout: float = DEFAULT_TIMEOUT
    """Seconds after which a read or a write that could not be finished fails."""

    def __str__(self) -> str:
        return f"{SCHEME}{','.join(self.endpoints)}{self.prefix}"


def parse_address(text: str) -> Address:
    """Read the address of a store.

    Raises:
        AddressError: it has mistakes; the message names the first.
    """
    # By hand: whether urlsplit takes an IPv6 address among several hosts depends on the version of Python.
    if not text.startswith(SCHEME) or "#" in text:
        raise AddressError(f"{without_password(text)!r}: expected an address such as {_EXAMPLE}")
    rest, _, query = text.removeprefix(SCHEME).partition("?")
    hosts, slash, path = rest.partition("/")
    if "@" in hosts:
        raise AddressError("a password in an address ends up in logs: use ?user=NAME&password-file=FILE")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if name not in _PARAMETERS:
            raise AddressError(f"{name!r}: expected one of the parameters {', '.join(_PARAMETERS)}")
        if not value:
            raise AddressError(f"{name}=: the value is missing")
    _check_files(options)
    return Address(
        endpoints=_endpoints(hosts),
        prefix=_prefix(unquote(slash + path)),
        ca_file=_path(options.get("cacert")),
        cert_file=_path(options.get("cert")),
        key_file=_path(options.get("key")),
        user=options.get("user", ""),
        password_file=_path(options.get("password-file")),
        timeout=_timeout(options.get("timeout")),
    )


def without_password(text: str) -> str:
    """An address as it may be shown: what stands before an @ is left out, since it may be a password."""
    _, at, rest = text.removeprefix(SCHEME).rpartition("@")
    return f"{SCHEME}...@{rest}" if at else text


def _check_files(options: dict[str, str]) -> None:
    if ("cert" in options) != ("key" in options):
        raise AddressError("cert and key: expected both or neither")
    if "cert" in options and "cacert" not in options:
        raise AddressError("cert needs cacert: the authority of the members' certificates")
    if ("user" in options) != ("password-file" in options):
        raise AddressError("user and password-file: expected both or neither")


def _endpoints(text: str) -> tuple[str, ...]:
    endpoints = tuple(_endpoint(one.strip()) for one in text.split(","))
    if len(set(endpoints)) != len(endpoints):
        raise AddressError(f"{text}: an endpoint is there twice")
    return endpoints


def _endpoint(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    is_host = host.startswith("[") == host.endswith("]") and (host.startswith("[") or ":" not in host)
    if not host or not is_port or not is_host:
        raise AddressError(f"{text!r}: expected HOST:PORT, such as 10.0.0.1:{DEFAULT_PORT} or [::1]:{DEFAULT_PORT}")
    return f"{host}:{port}"


def _prefix(path: str) -> str:
    prefix = path.rstrip("/")
    if not prefix:
        return DEFAULT_PREFIX
    if "//" in prefix or any(character < " " for character in prefix):
        raise AddressError(f"{path!r}: expected a prefix such as {DEFAULT_PREFIX}")
    return prefix


def _timeout(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 60:
        raise AddressError(f"timeout={text}: expected seconds from 1 to 60")
    return seconds


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
