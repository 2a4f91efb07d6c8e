"""The checks of the group authentication.k8s.io: TokenReview, which is answered and not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import BadRequest

if TYPE_CHECKING:
    from kapi.api.meta import Object


def check_token_review(review: Object) -> None:
    """There is a token to review."""
    if not review.get("spec", {}).get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
