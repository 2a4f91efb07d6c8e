"""The user a client certificate stands for: common name and organisations.

The TLS layer has verified the chain against our client CA; what is left is to check that it is meant for clients
and still valid, since a connection may outlive its certificate.
"""

from __future__ import annotations

import datetime as dt

from kapi.api.errors import Unauthorized
from kapi.base.tls import subject
from kapi.server.context import User


def user_of_certificate(der: bytes) -> User:
    """Read a verified certificate; Unauthorized when it does not name a user or may not be used for that."""
    name = subject(der)
    if not name.client_auth or not name.common_name or name.not_valid_after < dt.datetime.now(dt.UTC):
        raise Unauthorized
    return User(name.common_name, tuple(name.organizations))
