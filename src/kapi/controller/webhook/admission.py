"""Admission webhooks: the requests and responses of functions, and the AdmissionReview on the wire.

A function denies a request by raising `Denied`, or any `ApiError`, whose Status the caller then gets. Any other error
is a bug: the caller is told that the webhook failed and no more, the log has the rest. Only admission.k8s.io/v1 is
supported.
"""

from __future__ import annotations

import base64
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import msgspec
import structlog

from kapi.api.errors import ApiError
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.codec import json
from kapi.controller.webhook.diff import carried_over, diff
from kapi.controller.webhook.review import MalformedReview, request_of, response_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from kapi.api.meta import Object

T = TypeVar("T")
R = TypeVar("R")

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 409: "Conflict", 422: "Invalid", 500: "InternalError"}
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_log = structlog.get_logger("kapi.controller")


class UserInfo(NamedTuple):
    """The user who sent the request to the API server."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = {}


class Allowed(NamedTuple):
    """The request is allowed, with warnings. A function that returns None allows it, too."""

    warnings: Sequence[str] = ()
    """Warnings for the user; kubectl prints them. Keep them short."""
    audit_annotations: Mapping[str, str] = {}


class Denied(Exception):
    """The request is denied. `message` is shown to the user; `code` is an HTTP status of 400 to 599."""

    def __init__(self, message: str, *, code: int = 403, reason: str = "", warnings: Sequence[str] = ()) -> None:
        super().__init__(message)
        if not 400 <= code <= 599:
            raise ValueError(f"a denial has a code from 400 to 599, not {code}")
        self.message = message
        self.code = code
        self.reason = reason or _REASONS.get(code, "")
        self.warnings = warnings


@dataclass(frozen=True, slots=True)
class AdmissionRequest(Generic[T]):
    """The request of an AdmissionReview.

    `object` is what would be stored; there is none for DELETE. `old_object` is what is stored; there is none for
    CREATE. `kind` and `resource` are what the webhook is registered for, `request_kind` and `request_resource` what the
    caller really used, which differs when the API server converted.
    """

    uid: str
    operation: Operation
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    """Empty when it is still to be generated."""
    namespace: str = ""
    user: UserInfo = field(default_factory=UserInfo)
    object: T | None = None
    old_object: T | None = None
    dry_run: bool = False
    """Nothing will be stored; a webhook with side effects must not have them."""
    options: Object = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a warning to the response, whether the request is allowed or not."""
        self.warnings.append(text)

    @property
    def subject(self) -> T:
        """The object this is about: the one to be stored, or for DELETE the stored one."""
        found = self.object if self.object is not None else self.old_object
        if found is None:
            raise Denied("the request carries no object", code=400)
        return found


Validator: TypeAlias = "Callable[[AdmissionRequest[T]], Allowed | Awaitable[Allowed | None] | None]"
Mutator: TypeAlias = "Callable[[T, AdmissionRequest[T]], T | Awaitable[T | None] | None]"


class Review(Protocol):
    """Answers the decoded body of a review; `MalformedReview` when it is none."""

    async def __call__(self, review: Any, /) -> Object:
        """The review to send back."""
        ...


def validating(function: Validator[T], cls: type[T] | None) -> Review:
    """The reviews of a validating webhook."""

    async def validate(request: AdmissionRequest[T], raw: Object) -> Object:
        verdict = await _result(function(request))
        if verdict is None:
            return {}
        if not isinstance(verdict, Allowed):
            raise TypeError(f"{function!r} returned {type(verdict).__name__}: expected None or Allowed")
        request.warnings.extend(verdict.warnings)
        return {"auditAnnotations": dict(verdict.audit_annotations)} if verdict.audit_annotations else {}

    return _reviews(validate, cls)


def mutating(function: Mutator[T], cls: type[T] | None) -> Review:
    """The reviews of a mutating webhook.

    Fields that the class does not have are not seen by the function and stay as they are.
    """

    async def change(request: AdmissionRequest[T], raw: Object) -> Object:
        original, seen = raw.get("object"), request.object
        if seen is None:
            return {}  # a DELETE: there is nothing to change
        before = msgspec.to_builtins(_read(original, cls))
        returned = await _result(function(seen, request))
        after = msgspec.to_builtins(seen if returned is None else returned)
        if not isinstance(after, dict):
            raise TypeError(f"{function!r} returned {type(returned).__name__}: expected the object")
        patch = diff(original, carried_over(original, before, after))
        if not patch:
            return {}
        return {"patchType": "JSONPatch", "patch": base64.b64encode(json.encode(patch)).decode()}

    return _reviews(change, cls)


def _reviews(handle: Callable[[AdmissionRequest[T], Object], Awaitable[Object]], cls: type[T] | None) -> Review:
    async def answered(review: Any, /) -> Object:
        raw = request_of(review, API_VERSION, KIND)
        request: AdmissionRequest[T] = _request(raw)
        try:
            request = _with_objects(request, raw, cls)
            response = {"allowed": True, **await handle(request, raw)}
        except Exception as error:
            if isinstance(error, Denied):
                request.warnings.extend(error.warnings)
            response = {"allowed": False, "status": _status(error, request)}
        if request.warnings:
            response["warnings"] = list(request.warnings)
        return response_to(request.uid, response, API_VERSION, KIND)

    return answered


def _status(error: Exception, request: AdmissionRequest[Any]) -> Object:
    if isinstance(error, ApiError):
        return error.status()
    if isinstance(error, Denied):
        code, reason, message = error.code, error.reason, error.message
    else:
        _log.error(
            "an admission webhook failed",
            kind=request.kind.kind,
            object=f"{request.namespace}/{request.name}".lstrip("/"),
            operation=request.operation,
            exc_info=error,
        )
        code, reason, message = 500, "InternalError", "the webhook failed; its log says why"
    status = {"status": "Failure", "message": message, "code": code}
    return {**status, "reason": reason} if reason else status


def _request(raw: Object) -> AdmissionRequest[Any]:
    operation = raw.get("operation")
    if operation not in _OPERATIONS:
        raise MalformedReview(f"request.operation is {operation!r}: expected one of {', '.join(_OPERATIONS)}")
    try:
        said = msgspec.convert(raw, _Request)
    except msgspec.ValidationError as error:
        raise MalformedReview(f"request: {error}") from None
    user = said.userInfo or _User()
    return AdmissionRequest(
        uid=said.uid,
        operation=cast("Operation", operation),
        kind=said.kind.gvk(),
        resource=said.resource.gvr(),
        sub_resource=said.subResource or "",
        request_kind=said.requestKind.gvk() if said.requestKind else None,
        request_resource=said.requestResource.gvr() if said.requestResource else None,
        request_sub_resource=said.requestSubResource or "",
        name=said.name or "",
        namespace=said.namespace or "",
        user=UserInfo(user.username or "", user.uid or "", tuple(user.groups or ()), user.extra or {}),
        dry_run=bool(said.dryRun),
        options=said.options or {},
    )


def _with_objects(request: AdmissionRequest[Any], raw: Object, cls: type[T] | None) -> AdmissionRequest[T]:
    wanted = getattr(cls, "gvk", None)
    if wanted is not None and wanted != request.kind:
        sent = f"{request.kind.kind} of {request.kind.api_version}"
        raise Denied(f"this webhook is for {wanted.kind} of {wanted.api_version}, not {sent}", code=400)
    return replace(request, object=_read(raw.get("object"), cls), old_object=_read(raw.get("oldObject"), cls))


def _read(value: Any, cls: type[T] | None) -> T | None:
    """An object as its class, a copy of its own."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Denied("the object of the request is no object", code=400)
    try:
        return msgspec.json.decode(json.encode(value), type=cls if cls is not None else cast("type[T]", dict))
    except msgspec.ValidationError as error:
        raise Denied(f"the object cannot be read: {error}", code=400) from None


async def _result(value: R | Awaitable[R]) -> R:
    return await value if inspect.isawaitable(value) else value


class _GroupVersionThing(msgspec.Struct):
    """A kind or a resource, as reviews name them."""

    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""

    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)

    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.resource)


class _User(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Request(msgspec.Struct):
    """The request of a review, field by field as it is on the wire."""

    uid: str
    kind: _GroupVersionThing
    resource: _GroupVersionThing
    subResource: str | None = None  # noqa: N815
    requestKind: _GroupVersionThing | None = None  # noqa: N815
    requestResource: _GroupVersionThing | None = None  # noqa: N815
    requestSubResource: str | None = None  # noqa: N815
    name: str | None = None
    namespace: str | None = None
    userInfo: _User | None = None  # noqa: N815
    dryRun: bool | None = None  # noqa: N815
    options: dict[str, Any] | None = None
