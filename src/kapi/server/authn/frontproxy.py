"""Front proxies: the headers in which a proxy names the user of a request, trusted with the proxy's certificate alone.

Without a certificate of `--requestheader-client-ca-file` these headers are ignored, whatever they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

import structlog

from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.trust import UntrustedCertificate, subject

if TYPE_CHECKING:
    import datetime as dt

    from kapi.base.clock import Clock
    from kapi.base.trust import Authorities
    from kapi.server.transport.message import Peer, Request

SEPARATOR: Final = "\n"
"""Between the values of a header that is given more than once."""

_log = structlog.get_logger("kapi.authentication")


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """The names of the headers, and the common names of the certificates that may use them (none: all)."""

    username: tuple[str, ...] = ("X-Remote-User",)
    uid: tuple[str, ...] = ("X-Remote-Uid",)
    group: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefix: tuple[str, ...] = ("X-Remote-Extra-",)
    allowed_names: tuple[str, ...] = ()


class _Proxy(NamedTuple):
    """The outcome of verifying the certificate of a connection; `expires` is None if it is not that of a proxy."""

    authorities: Authorities
    expires: dt.datetime | None


class FrontProxy:
    """A `LocalAuthenticator` of requests that a front proxy has authenticated."""

    def __init__(self, authorities: Authorities, headers: ProxyHeaders, clock: Clock) -> None:
        self.authorities = authorities
        """The authorities of proxies' certificates."""
        self._clock = clock
        self._allowed = frozenset(headers.allowed_names)
        self._usernames = _lower(headers.username)
        self._uids = _lower(headers.uid)
        self._groups = _lower(headers.group)
        self._prefixes = _lower(headers.extra_prefix)

    def identify(self, request: Request) -> User | None:
        """Return the user that the headers name, None if they name none; Unauthorized without a proxy's certificate."""
        name = _first(request.headers, self._usernames)
        peer = request.peer
        if not name or not peer.certificates:
            return None
        proxy: _Proxy | None = peer.proxy
        if proxy is None or proxy.authorities is not self.authorities:
            proxy = peer.proxy = self._verified(peer)
        if proxy.expires is None or proxy.expires < self._clock.now():
            raise Unauthorized
        user = User(name, self._group_names(request.headers), _first(request.headers, self._uids), self._extra(request))
        self._strip(request.headers)
        return user

    def _verified(self, peer: Peer) -> _Proxy:
        try:
            expires = self.authorities.verify(peer.certificates, self._clock.now())
            name = subject(peer.certificates[0]).common_name
            if self._allowed and name not in self._allowed:
                raise UntrustedCertificate(f"x509: subject with cn={name} is not in the allowed list")
        except (UntrustedCertificate, ValueError) as error:
            # A client with a certificate of its own may send such headers, too; what it is then is not known here.
            _log.debug("headers of a front proxy are ignored", address=peer.address, error=str(error))
            return _Proxy(self.authorities, None)
        return _Proxy(self.authorities, expires)

    def _group_names(self, headers: dict[str, str]) -> tuple[str, ...]:
        values = (value for name in self._groups for value in headers.get(name, "").split(SEPARATOR))
        return tuple(value for value in values if value)

    def _extra(self, request: Request) -> dict[str, list[str]]:
        extra: dict[str, list[str]] = {}
        for prefix in self._prefixes:
            for name, value in request.headers.items():
                if name.startswith(prefix):
                    extra.setdefault(unquote(name.removeprefix(prefix)), []).extend(value.split(SEPARATOR))
        return extra

    def _strip(self, headers: dict[str, str]) -> None:
        """Remove the headers, so that nothing behind authentication can be led astray by them."""
        named = {*self._usernames, *self._uids, *self._groups}
        for name in [one for one in headers if one in named or one.startswith(self._prefixes)]:
            del headers[name]


def _first(headers: dict[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        value = headers.get(name, "").partition(SEPARATOR)[0]
        if value:
            return value
    return ""


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in names)
