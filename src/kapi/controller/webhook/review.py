"""The envelope that all reviews share: a request with a uid, and a response with the same uid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapi.api.meta import Object


class MalformedReview(ValueError):
    """The body is no review of the expected version and kind."""


def request_of(review: Any, api_version: str, kind: str) -> Object:
    """The request in a review; it has a uid."""
    if not isinstance(review, dict):
        raise MalformedReview(f"expected an object of kind {kind}")
    said = f"{review.get('apiVersion')}, {review.get('kind')}"
    if said != f"{api_version}, {kind}":
        raise MalformedReview(f"expected {api_version}, {kind}, got {said[:200]}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise MalformedReview("the review has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReview("the request has no uid")
    return request


def response_to(uid: str, response: Object, api_version: str, kind: str) -> Object:
    """The review to send back."""
    return {"apiVersion": api_version, "kind": kind, "response": {"uid": uid, **response}}
