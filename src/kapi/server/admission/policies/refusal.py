"""The errors that policies refuse requests with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import ApiError, Forbidden, Invalid, RequestEntityTooLarge
from kapi.server.admission.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.registry.request import Write

_VALIDATION: Final[dict[str, type[ApiError]]] = {one.reason: one for one in (Forbidden, RequestEntityTooLarge)}


class _FailedMutation(Forbidden):
    """A mutation that failed: as in Kubernetes, with the reason of an invalid object and the code of a refusal."""

    reason = "Invalid"


def failed_validation(write: Write, obj: Object | None, reason: str, message: str) -> ApiError:
    """Return the error of a request that a validation denies."""
    plain = refusal(write, obj, message)
    return _error(_VALIDATION.get(reason, Invalid), plain, plain.message, [message])


def failed_mutations(write: Write, obj: Object | None, messages: Sequence[str], *, is_misconfigured: bool) -> ApiError:
    """Return the error of a request whose mutations failed; the first message is that of the error."""
    kind = Forbidden if is_misconfigured else _FailedMutation
    return _error(kind, refusal(write, obj, messages[0]), messages[0], messages)


def _error(kind: type[ApiError], plain: Forbidden, text: str, causes: Sequence[str]) -> ApiError:
    """Return an error of a kind with the details of a plain refusal, and causes."""
    error = kind.__new__(kind)
    # Not by the class: that of requests that are too large begins its text in its own way.
    ApiError.__init__(error, text, details={**(plain.details or {}), "causes": [{"message": one} for one in causes]})
    return error
