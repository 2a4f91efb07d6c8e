"""The rules of the group authentication.k8s.io: TokenReview and TokenRequest, which are answered and not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import BadRequest
from kapi.api.fielderror import invalid

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object

DEFAULT_SECONDS: Final = 3600
MIN_SECONDS: Final = 600
MAX_SECONDS: Final = 2**32


def check_token_review(review: Object) -> None:
    """There is a token to review."""
    if not review.get("spec", {}).get("token"):
        raise BadRequest("token is required for TokenReview in authentication")


def default_token_request(request: Object) -> None:
    """Give a token a life of an hour unless the request says otherwise."""
    spec = request["spec"] = request.get("spec") or {}
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = DEFAULT_SECONDS


def validate_token_request(request: Object) -> list[FieldError]:
    """Return the errors of a TokenRequest: a token lives for ten minutes at least."""
    path, seconds = "spec.expirationSeconds", request["spec"]["expirationSeconds"]
    if seconds < MIN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > MAX_SECONDS:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []
