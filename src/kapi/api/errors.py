"""The errors of the API, each carrying the Kubernetes `Status` that clients branch on.

Server code raises them; only the pipeline turns them into responses. The client lane raises the same
classes for the answers it reads, so one `except Conflict` works on both sides of the wire.

    ApiError
    ├── BadRequest 400              ├── Conflict 409               ├── TooManyRequests 429
    ├── Unauthorized 401            ├── AlreadyExists 409          ├── InternalError 500
    ├── Forbidden 403               ├── Expired 410                ├── PlainError 500 (no reason)
    ├── NotFound 404                ├── RequestEntityTooLarge 413  ├── ServerTimeout 500
    ├── MethodNotAllowed 405        ├── UnsupportedMediaType 415   ├── NotImplemented501 501
    ├── NotAcceptable 406           ├── Invalid 422                ├── ServiceUnavailable 503
    ├── RequestTimeout 408                                         ├── Timeout 504
    ├── PageNotFound 404 (text)
    └── InternalServerError 500 (text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kapi.api.fielderror import OMITTED
from kapi.api.limits import MESSAGE_CHARACTERS, REPORTED_ERROR_BYTES, REPORTED_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import GroupKind, GroupResource


class ApiError(Exception):
    """A failure with a Status: `code`, `reason`, `message` and optional `details`.

    `details=None` leaves the key out of the Status, `details={}` sends it empty; real servers do both.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        list_metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.list_metadata = list_metadata

    @property
    def retry_after(self) -> int:
        """Seconds for the `Retry-After` header; 0 means none."""
        seconds = (self.details or {}).get("retryAfterSeconds", 0)
        return seconds if isinstance(seconds, int) else 0

    def status(self) -> dict[str, Any]:
        """The Status object a client receives."""
        message = self.message
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata or {},
            "status": "Failure",
            "message": message if len(message) <= MESSAGE_CHARACTERS else f"{message[:MESSAGE_CHARACTERS]} ...",
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(name: str, group: str, kind: str, **more: Any) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in details.items() if value}


class BadRequest(ApiError):
    """400: the request cannot be understood."""

    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    """401: we do not know who is asking."""

    code = 401
    reason = "Unauthorized"

    def __init__(self, message: str = "Unauthorized") -> None:
        super().__init__(message)


class Forbidden(ApiError):
    """403: we know who is asking, and the answer is no."""

    code = 403
    reason = "Forbidden"

    @classmethod
    def of(cls, resource: GroupResource, name: str, why: str, causes: Sequence[dict[str, str]] = ()) -> Forbidden:
        """The refusal of an action on a resource; `why` follows `is forbidden: `."""
        if not resource.resource:
            return cls(f"forbidden: {why}", details={})
        subject = f'{resource} "{name}"' if name else str(resource)
        return cls(
            f"{subject} is forbidden: {why}",
            details=_details(name, resource.group, resource.resource, causes=list(causes)),
        )


class NotFound(ApiError):
    """404: no such object, or no such resource."""

    code = 404
    reason = "NotFound"

    @classmethod
    def of(cls, resource: GroupResource, name: str) -> NotFound:
        """No object of that name."""
        return cls(f'{resource} "{name}" not found', details=_details(name, resource.group, resource.resource))

    @classmethod
    def route(cls) -> NotFound:
        """A path below a served group that names nothing."""
        return cls("the server could not find the requested resource", details={})


class PageNotFound(ApiError):
    """404 as plain text, which is how an unknown group or root path is answered."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("404 page not found")


class InternalServerError(ApiError):
    """500 as plain text: a request that failed before its form could be negotiated."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f'Internal Server Error: "{url}": {why}')


class MethodNotAllowed(ApiError):
    """405: the path exists, the method does not."""

    code = 405
    reason = "MethodNotAllowed"

    def __init__(self, message: str = "the server does not allow this method on the requested resource") -> None:
        super().__init__(message, details={})


class NotAcceptable(ApiError):
    """406: no media type we speak is in `Accept`."""

    code = 406
    reason = "NotAcceptable"


class RequestTimeout(ApiError):
    """408: the client did not send its request in time."""

    code = 408
    reason = "Timeout"


class Conflict(ApiError):
    """409: the object is not in the state the request assumed."""

    code = 409
    reason = "Conflict"

    @classmethod
    def of(cls, resource: GroupResource, name: str, why: str) -> Conflict:
        """A precondition that did not hold."""
        return cls(
            f'Operation cannot be fulfilled on {resource} "{name}": {why}',
            details=_details(name, resource.group, resource.resource),
        )

    @classmethod
    def modified(cls, resource: GroupResource, name: str) -> Conflict:
        """A stale resourceVersion."""
        return cls.of(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )


class AlreadyExists(ApiError):
    """409: an object of that name is there already."""

    code = 409
    reason = "AlreadyExists"

    @classmethod
    def of(cls, resource: GroupResource, name: str, *, deleting: bool = False) -> AlreadyExists:
        """A name that is taken, perhaps by an object that is on its way out."""
        prefix = "object is being deleted: " if deleting else ""
        return cls(
            f'{prefix}{resource} "{name}" already exists',
            details=_details(name, resource.group, resource.resource),
        )

    @classmethod
    def generated(cls, resource: GroupResource, name: str) -> AlreadyExists:
        """Every generated name we tried was taken."""
        return cls(
            f'{resource} "{name}" already exists, the server was not able to generate a unique name for the object',
            details=_details(name, resource.group, resource.resource, retryAfterSeconds=1),
        )


class Expired(ApiError):
    """410: the asked-for revision has been compacted; list again."""

    code = 410
    reason = "Expired"


class RequestEntityTooLarge(ApiError):
    """413: the body, or what it asks for, is over a limit."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, what: str) -> None:
        super().__init__(f"Request entity too large: {what}")


class UnsupportedMediaType(ApiError):
    """415: the body is in a format we do not read."""

    code = 415
    reason = "UnsupportedMediaType"

    @classmethod
    def accepted(cls, media_types: Iterable[str]) -> UnsupportedMediaType:
        """The body's type is none of `media_types`."""
        return cls(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(media_types)
        )


class Invalid(ApiError):
    """422: the object was understood and breaks its kind's rules; `causes` has one entry per field."""

    code = 422
    reason = "Invalid"

    @classmethod
    def of(cls, kind: GroupKind, name: str, errors: Sequence[FieldError]) -> Invalid:
        """The field errors of one object, in the words Kubernetes uses.

        Kubernetes reports all of them. Here an answer has the first few hundred and the number of the others.
        """
        shown = _reported(errors)
        texts = list(dict.fromkeys(str(error) for error in shown))
        if len(shown) < len(errors):
            texts.append(f"{len(errors) - len(shown)} more errors")
        text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        return cls(
            f'{kind} "{name}" is invalid: {text}',
            details=_details(name, kind.group, kind.kind, causes=[error.cause() for error in shown]),
        )

    @classmethod
    def generic(cls) -> Invalid:
        """A patch that could not be applied; the real server does not say why either."""
        return cls("the server rejected our request due to an error in our request", details={})


def _reported(errors: Sequence[FieldError]) -> list[FieldError]:
    """The errors that an answer describes; the first one always, whatever its size."""
    shown: list[FieldError] = []
    left = REPORTED_ERROR_BYTES
    for error in errors:
        if error is OMITTED or (shown and left < 0) or len(shown) == REPORTED_ERRORS:
            break
        left -= len(error.field) + len(error.body)
        shown.append(error)
    return shown


class TooManyRequests(ApiError):
    """429: come back later."""

    code = 429
    reason = "TooManyRequests"


class Overloaded(TooManyRequests):
    """429 as plain text, which is how flow control refuses a request."""

    def __init__(self) -> None:
        super().__init__("Too many requests, please try again later.", details={"retryAfterSeconds": 1})


class InternalError(ApiError):
    """500: something of ours broke."""

    code = 500
    reason = "InternalError"

    @classmethod
    def of(cls, why: str) -> InternalError:
        """Wrap a cause the way clients expect it."""
        return cls(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


class PlainError(ApiError):
    """500 without a reason: what kube-apiserver answers for a handful of untyped errors."""


class ServerTimeout(ApiError):
    """500: the operation could not be completed now."""

    code = 500
    reason = "ServerTimeout"


class NotImplemented501(ApiError):
    """501: the API is real, this server has nothing behind it."""

    code = 501
    reason = "NotImplemented"


class ServiceUnavailable(ApiError):
    """503: not now, and not because of the request."""

    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    """504: the deadline passed; a write may or may not have happened."""

    code = 504
    reason = "Timeout"

    @classmethod
    def too_large_revision(cls, wanted: int, current: int) -> Timeout:
        """A read at a revision this server has not reached."""
        return cls(
            f"Timeout: Too large resource version: {wanted}, current: {current}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        )
