"""The errors of a client, told apart by what the program can do about them.

    ApiError (kapi.api.errors)      the server answered with a Status that is no success; one class per reason
    ClientError
    ├── ConfigError                 the configuration cannot be used, so nothing was sent
    ├── LossyUpdate                 a typed update would drop fields, so nothing was sent
    ├── NoMatch                     the server has no such resource or kind
    ├── WaitTimeout                 what was waited for did not happen in time; a TimeoutError too
    └── TransportError              no usable answer
        ├── ConnectError            nothing was sent; asking again is safe
        ├── ConnectionLost          the connection broke; a write may or may not have happened
        ├── TransportTimeout        time ran out; a write may or may not have happened
        └── AnswerError             an answer that breaks the protocol: a redirect, bad JSON, HTML
            ├── AnswerTooLarge      an answer or a line that is longer than the client's bound
            └── EndlessList         pages that do not lead to the end of a list

The classes of `kapi.api.errors` are raised on both sides of the wire; `error_from_status` turns an answer back into
them.
"""

from __future__ import annotations

from typing import Any, Final

from kapi.api import errors
from kapi.api.errors import ApiError


class ClientError(Exception):
    """A failure that has no Status, because no server gave one."""


class ConfigError(ClientError):
    """The configuration cannot be used; the text says what is wrong and where."""


class LossyUpdate(ClientError):
    """A typed update would drop fields that its class does not have; the text says where."""


class NoMatch(ClientError):
    """The server does not have what was asked for, not even after looking again."""


class WaitTimeout(ClientError, TimeoutError):
    """An object did not come into the state that was waited for; the text says how it was last seen."""


class TransportError(ClientError):
    """The request got no usable answer."""


class ConnectError(TransportError):
    """No connection was made, so nothing was sent. `refused` when there is no listener at the address."""

    def __init__(self, message: str, *, host: str = "", refused: bool = False) -> None:
        super().__init__(message)
        self.host = host
        self.refused = refused


class ConnectionLost(TransportError):
    """The connection broke before the answer was complete; a write may or may not have happened."""


class TransportTimeout(TransportError):
    """The time-out passed without an answer; a write may or may not have happened."""


class AnswerError(TransportError):
    """The response breaks the protocol."""


class AnswerTooLarge(AnswerError):
    """The answer, or a line of it, is longer than the bound of the `ClientConfig`; the rest of it was not read."""


class EndlessList(AnswerError):
    """The pages of a list do not end: a continue token comes again, or a page, or there are too many of them."""


_CLASSES: Final[tuple[type[ApiError], ...]] = (
    errors.BadRequest,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.MethodNotAllowed,
    errors.NotAcceptable,
    errors.RequestTimeout,
    errors.Conflict,
    errors.AlreadyExists,
    errors.Expired,
    errors.RequestEntityTooLarge,
    errors.UnsupportedMediaType,
    errors.Invalid,
    errors.TooManyRequests,
    errors.InternalError,
    errors.ServerTimeout,
    errors.NotImplemented501,
    errors.ServiceUnavailable,
    errors.Timeout,
)
_BY_REASON: Final[dict[str, type[ApiError]]] = {"Gone": errors.Expired, **{cls.reason: cls for cls in _CLASSES}}
_BY_BOTH: Final = {(cls.reason, cls.code): cls for cls in _CLASSES}
# Of two classes with one code the first is the general one.
_BY_CODE: Final[dict[int, type[ApiError]]] = {cls.code: cls for cls in reversed(_CLASSES)}

# What client-go says for answers that carry no Status; programs have learnt these texts.
_GENERIC: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    415: "the server was unable to understand the request's content type",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def error_from_status(status: dict[str, Any], code: int = 0) -> ApiError:
    """The error a Status stands for, with the server's own code, reason, message and details.

    The class is chosen by reason, then by code; `code` is the HTTP status, for a Status that does not say.
    """
    reason = _text(status.get("reason"))
    own = status.get("code")
    number = own if isinstance(own, int) and own else code or 500
    cls = _BY_BOTH.get((reason, number)) or _BY_REASON.get(reason) or _BY_CODE.get(number) or errors.PlainError
    return _make(cls, number, reason, _text(status.get("message")), status)


def error_from_text(code: int, text: str) -> ApiError:
    """Return the error of a response without a Status: a proxy's page, or a path that is not served."""
    cls = _BY_CODE.get(code) or errors.PlainError
    message = _GENERIC.get(code) or (
        f"an error on the server ({text.strip()[:256]!r}) has prevented the request from succeeding"
        if code >= 500
        else f"the server responded with the status code {code} but did not return more information"
    )
    return _make(cls, code, cls.reason or "InternalError", message, {"details": {}})


def _make(cls: type[ApiError], code: int, reason: str, message: str, status: dict[str, Any]) -> ApiError:
    # The classes' own constructors word messages for servers; here the words are the server's already.
    error = cls.__new__(cls)
    details, metadata = status.get("details"), status.get("metadata")
    ApiError.__init__(
        error,
        message or _GENERIC.get(code, "the server gave no message"),
        details=details if isinstance(details, dict) else None,
        list_metadata=metadata if isinstance(metadata, dict) else None,
    )
    # A server may use a reason with another code than we would; what it said is what callers see.
    vars(error).update(
        {name: value for name, value in (("code", code), ("reason", reason)) if value != getattr(cls, name)}
    )
    return error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
