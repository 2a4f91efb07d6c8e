"""The headers of proxied requests and responses: what is passed on, what never is, and what is added.

The other server takes the user from headers, because the connection shows the certificate of a front proxy. So no
header of a client may reach it that names a user: neither under the usual names nor under those of the options, nor by
way of the `Connection` header. Credentials that are meant for this server stay here. The framing of a message is not
passed on but made anew for the bytes that were read, so that both servers agree on where it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.user import User
    from kapi.server.authn.frontproxy import ProxyHeaders
    from kapi.server.transport.message import Request

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_THIS_SERVER: Final = frozenset({"authorization", "cookie", "host", "content-length", "expect", "audit-id"})
"""Headers of a request that are for this server alone, or that it sets itself."""
_FORWARDED: Final = frozenset({"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-uri"})
_NAMING_USERS: Final = ("x-remote-", "impersonate-")
_NOT_RETURNED: Final = frozenset(
    {
        *(name.encode() for name in _HOP_BY_HOP),
        b"content-length",
        b"date",
        b"audit-id",
        # A cookie would be one of this server's host, and so of every other server behind it.
        b"set-cookie",
        b"access-control-allow-credentials",
        b"access-control-allow-headers",
        b"access-control-allow-methods",
        b"access-control-allow-origin",
    }
)
_LEGAL_IN_NAMES: Final = frozenset("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_WEBSOCKET_PROTOCOL: Final = "sec-websocket-protocol"
_BEARER_PROTOCOL: Final = "base64url.bearer.authorization.k8s.io."


class InvalidHeader(ValueError):
    """A value that cannot be sent in a header."""


class RequestHeaders:
    """Makes the heads of proxied requests. `names` are the headers by which the other server learns of the user."""

    def __init__(self, names: ProxyHeaders) -> None:
        self._user = names.username[0]
        self._uid = names.uid[0]
        self._group = names.group[0]
        self._extra = names.extra_prefix[0]
        own = (*names.username, *names.uid, *names.group)
        self._dropped = _HOP_BY_HOP | _OF_THIS_SERVER | _FORWARDED | {name.strip().lower() for name in own}
        self._prefixes = (*_NAMING_USERS, *(prefix.strip().lower() for prefix in names.extra_prefix))

    def head(self, request: Request, user: User, host: str, audit_id: str, *, upgrade: str = "") -> bytes:
        """Return the head of a request as it is passed on, up to and with the empty line.

        `upgrade` is the protocol to switch to, if any.
        """
        lines = [self._line(request), f"Host: {host}", f"Audit-Id: {audit_id}", *self.of_user(user)]
        given = request.headers
        dropped, prefixes = self._dropped, self._prefixes
        if (connection := given.get("connection")) is not None and connection.lower() != "keep-alive":
            dropped = dropped.union(token.strip().lower() for token in connection.split(","))
        for name, value in given.items():
            if name not in dropped and not name.startswith(prefixes):
                lines.append(f"{name}: {value if name != _WEBSOCKET_PROTOCOL else _without_bearer(value)}")
        lines += _forwarded(request, host)
        if upgrade:
            lines += ("Connection: Upgrade", f"Upgrade: {upgrade}")
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(request.body)}")
        text = "\r\n".join(lines)
        # Every line break is one of those between two lines: nothing in a value may begin a header of its own.
        if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
            raise InvalidHeader("a header contains a line break")
        return text.encode() + b"\r\n\r\n"

    def of_user(self, user: User) -> list[str]:
        """Return the header lines that name a user."""
        lines = [f"{self._user}: {_value(self._user, user.name)}"]
        if user.uid:
            lines.append(f"{self._uid}: {_value(self._uid, user.uid)}")
        lines += [f"{self._group}: {_value(self._group, group)}" for group in user.groups]
        for key, values in user.extra.items():
            name = self._extra + _escaped(key)
            lines += [f"{name}: {_value(name, value)}" for value in values]
        return lines

    @staticmethod
    def _line(request: Request) -> str:
        target = f"{request.path}?{request.query}" if request.query else request.path
        return f"{request.method} {target} HTTP/1.1"


def wanted_protocol(request: Request) -> str:
    """Return the protocol that a request asks to switch to; empty for none, and for a request with a body."""
    tokens = request.headers.get("connection", "").lower().split(",")
    if request.body or "upgrade" not in (token.strip() for token in tokens):
        return ""
    return request.headers.get("upgrade", "")


def switched(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return the headers of a response that switches protocols."""
    found = list(headers)
    protocol = next((value.decode("ascii", "replace") for name, value in found if name.lower() == b"upgrade"), "")
    return [*returned(found), ("Connection", "Upgrade"), ("Upgrade", protocol)]


def returned(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return the headers of a response that are passed on to the client."""
    dropped = _NOT_RETURNED
    found = list(headers)
    for name, value in found:
        if name.lower() == b"connection":
            dropped = dropped.union(token.strip().lower() for token in value.split(b","))
    return [
        (name.decode("ascii", "replace"), value.decode("utf-8", "replace"))
        for name, value in found
        if name.lower() not in dropped
    ]


def _forwarded(request: Request, host: str) -> list[str]:
    """Return the headers that tell the other server of the client and of what it has asked for."""
    earlier = request.headers.get("x-forwarded-for")
    address = request.peer.address
    return [
        f"X-Forwarded-For: {earlier}, {address}" if earlier else f"X-Forwarded-For: {address}",
        f"X-Forwarded-Uri: {request.path}",
        f"X-Forwarded-Host: {host}",
        "X-Forwarded-Proto: https",
    ]


def _value(name: str, value: str) -> str:
    """Check the value of a header: a name that was not checked elsewhere must not add headers."""
    if any(character < " " or character == "\x7f" for character in value):
        raise InvalidHeader(f"net/http: invalid header field value for {name!r}")
    return value


def _escaped(key: str) -> str:
    """Return a key of a user's extra attributes as a part of a header's name, percent-encoded where it has to be."""
    if all(character in _LEGAL_IN_NAMES for character in key):
        return key
    return "".join(
        character if character.lower() in _LEGAL_IN_NAMES else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in key
    )


def _without_bearer(protocols: str) -> str:
    """Return the protocols of a WebSocket without the one that is a token, which browsers send in this way."""
    kept = (one.strip() for one in protocols.split(","))
    return ", ".join(one for one in kept if not one.startswith(_BEARER_PROTOCOL))
