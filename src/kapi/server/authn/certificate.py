"""The user of a connection: the subject of its client certificate, or the name an in-process caller was given.

The TLS layer has verified the certificate's chain against the client CA. What is left is to check that the
certificate is meant for clients, and that it is still valid, since a connection may outlive it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.clock import SystemClock
from kapi.base.tls import subject
from kapi.server.authn.authenticator import authenticated

if TYPE_CHECKING:
    import datetime as dt

    from kapi.base.clock import Clock
    from kapi.server.transport.message import Peer, Request


class _Identity(NamedTuple):
    """The user of a connection, and the time at which its certificate expires."""

    user: User
    expires: dt.datetime | None


class ConnectionAuthenticator:
    """Names the user of a request by its connection. A certificate is read once per connection."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def identify(self, request: Request) -> User | None:
        """Return the connection's user; None without a certificate; Unauthorized for one that is not valid here."""
        peer = request.peer
        identity: _Identity | None = peer.identity
        if identity is None:
            if peer.local is None and peer.certificate is None:
                return None
            identity = peer.identity = _identity_of(peer)
        user, expires = identity
        if expires is not None and expires < self._clock.now():
            raise Unauthorized
        return user


def _identity_of(peer: Peer) -> _Identity:
    if peer.local is not None:
        return _Identity(authenticated(User(*peer.local)), None)
    assert peer.certificate is not None
    name = subject(peer.certificate)
    if not name.client_auth or not name.common_name:
        raise Unauthorized
    return _Identity(authenticated(User(name.common_name, tuple(name.organizations))), name.not_valid_after)
