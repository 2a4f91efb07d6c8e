"""The proxy of a connection, chosen as programs written in Go choose it.

A kubeconfig's `proxy-url` wins. Without one `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` count (or the
same in lower case), and this machine itself is never asked for through a proxy. Only environment variables are read.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapi.client.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.client.config import ClientConfig

_PORTS = {"http": 80, "https": 443}


def proxy_for(config: ClientConfig, environ: Mapping[str, str] | None = None) -> str:
    """The address of the proxy to use for a config; empty for none.

    Raises:
        ConfigError: the proxy's address cannot be used. The text shows no password.
    """
    environ = os.environ if environ is None else environ
    if config.proxy:
        return _proxy_url(config.proxy, "proxy-url")
    name = "HTTPS_PROXY" if config.is_tls else "HTTP_PROXY"
    text = environ.get(name) or environ.get(name.lower()) or ""
    # A CGI program gets its clients' headers as variables, a header called "Proxy" among them.
    if not text or (not config.is_tls and environ.get("REQUEST_METHOD")):
        return ""
    server = urlsplit(config.server)
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if _is_exempt(server.hostname or "", server.port or _PORTS[server.scheme], exceptions):
        return ""
    return _proxy_url(text if "://" in text else f"http://{text}", name)


def without_password(url: str) -> str:
    """An address as it may be printed."""
    before, separator, after = url.partition("://")
    authority, slash, rest = after.partition("/")
    return f"{before}{separator}***@{authority.rpartition('@')[2]}{slash}{rest}" if "@" in authority else url


def names_a_host(url: str) -> bool:
    """Return True if an address has a host, and a port that is a number if it has one."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _proxy_url(text: str, where: str) -> str:
    if text.partition("://")[0] not in _PORTS or not names_a_host(text):
        raise ConfigError(f"{where} {without_password(text)!r} cannot be used: only http:// and https:// proxies can")
    return text


def _is_exempt(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return "*" in entries or any(_matches(entry, host, port, address) for entry in entries if entry)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _matches(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Return True if an entry of NO_PROXY matches a host: a network, or an address or domain with or without port."""
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(entry)
    if wanted_port not in ("", str(port)):
        return False
    exact = _address(name)
    if exact is not None or address is not None:
        return exact == address
    domain = name[1:] if name.startswith("*.") else name
    if domain.startswith("."):
        return host.endswith(domain)
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
