"""The user a client certificate stands for: common name and organisations.

The TLS layer has verified the chain against our client CA; what is left is to check that the certificate is meant
for clients, and to say how long it is good for, since a connection may outlive it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.tls import subject

if TYPE_CHECKING:
    import datetime as dt


def user_of_certificate(der: bytes) -> tuple[User, dt.datetime]:
    """The user of a verified certificate, and until when; Unauthorized when it does not name one."""
    name = subject(der)
    if not name.client_auth or not name.common_name:
        raise Unauthorized
    return User(name.common_name, tuple(name.organizations)), name.not_valid_after
