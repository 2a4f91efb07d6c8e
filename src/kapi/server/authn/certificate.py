"""The user of a connection: the subject of its client certificate, or the name an in-process caller was given.

TLS accepts any certificate, so that a wrong one can be answered with a Status. It is verified here, against the
authorities of `--client-ca-file`, when a connection's first request arrives; and again when the authorities change.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from kapi.api.errors import Unauthorized
from kapi.api.user import CREDENTIAL_ID, User
from kapi.base.clock import SystemClock
from kapi.base.trust import UntrustedCertificate, subject
from kapi.server.authn.authenticator import authenticated

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.base.trust import Authorities
    from kapi.server.transport.message import Peer, Request

KNOWN: Final = 1024
"""Certificates whose verification is remembered, for clients that open a connection for each request. A TLS session
that is resumed has no intermediate certificates, so its client would not be recognized without this."""

_NEVER_VALID: Final = dt.datetime.min.replace(tzinfo=dt.UTC)

_log = structlog.get_logger("kapi.authentication")


class _Identity(NamedTuple):
    """The user of a connection, None if its certificate names none; and the validity of that, None without an end."""

    user: User | None
    expires: dt.datetime | None
    authorities: Authorities | None
    """The authorities that verified the certificate."""


class ClientCertificates:
    """Names the user of a request by its connection. A certificate is verified once per connection."""

    def __init__(self, authorities: Authorities | None, clock: Clock | None = None) -> None:
        self.authorities = authorities
        """The authorities that clients' certificates are verified with; None: no certificate is looked at."""
        self._clock = clock or SystemClock()
        self._known: OrderedDict[bytes, _Identity] = OrderedDict()

    def identify(self, request: Request) -> User | None:
        """Return the connection's user; None without a certificate; Unauthorized for one that is not valid here."""
        peer = request.peer
        identity: _Identity | None = peer.identity
        if identity is None or identity.authorities is not self.authorities:
            if peer.local is not None:
                identity = _Identity(authenticated(User(*peer.local)), None, self.authorities)
            elif not peer.certificates or self.authorities is None:
                return None
            else:
                identity = self._verified(peer)
            peer.identity = identity
        user, expires, _ = identity
        if expires is not None and expires < self._clock.now():
            raise Unauthorized
        return user

    def _verified(self, peer: Peer) -> _Identity:
        assert self.authorities is not None
        known = self._known.get(peer.certificates[0])
        if known is not None and known.authorities is self.authorities:
            return known
        try:
            until = self.authorities.verify(peer.certificates, self._clock.now())
            identity = _Identity(user_of(peer.certificates[0]), until, self.authorities)
        except (UntrustedCertificate, ValueError) as error:
            _log.debug("a client certificate is not valid", address=peer.address, error=str(error))
            # Remembered, so that a long chain is not searched again for every request of its connection.
            return _Identity(None, _NEVER_VALID, self.authorities)
        self._known[peer.certificates[0]] = identity
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return identity


def user_of(certificate: bytes) -> User | None:
    """Return the user that a certificate names, None if it has no common name; ValueError if it cannot be read."""
    name = subject(certificate)
    if not name.common_name:
        return None
    credential = f"X509SHA256={hashlib.sha256(certificate).hexdigest()}"
    user = User(name.common_name, name.organizations, name.uid, {CREDENTIAL_ID: [credential]})
    return authenticated(user)
