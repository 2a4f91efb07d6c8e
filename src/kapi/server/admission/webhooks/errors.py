"""How the call of a webhook fails.

CallFailed        it was not called, or gave no valid answer: its failure policy decides
InvalidResponse   its answer breaks a rule: the reason of a CallFailed
Denied            it refuses the request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError
from kapi.api.go.text import quote

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.admission.webhooks.configurations import Webhook

UNAVAILABLE: Final = 503
MAX_STATUS: Final = 599
"""Codes above are no HTTP statuses; such an answer is a refusal with 500."""


class InvalidResponse(Exception):
    """An answer that can be read and may not be given; the text says why."""


class CallFailed(Exception):
    """A webhook was not called, or gave no valid answer; its failure policy decides."""

    def __init__(self, webhook: Webhook, reason: str, code: int = UNAVAILABLE) -> None:
        super().__init__(f"failed calling webhook {quote(webhook.name)}: {reason}")
        self.code = code
        """The code that metrics report."""


class Denied(ApiError):
    """The refusal of a webhook, with the Status that it chose."""

    def __init__(self, webhook: str, status: Object | None) -> None:
        status = status or {}
        by = f"admission webhook {quote(webhook)} denied the request"
        why = status.get("message") or status.get("reason")
        super().__init__(
            f"{by}: {why}" if why else f"{by} without explanation",
            details=status.get("details"),
            list_metadata=status.get("metadata"),
        )
        code = max(status.get("code") or 0, 400)
        # Kubernetes honours what the webhook chose, so the class has neither.
        vars(self).update(code=code if code <= MAX_STATUS else 500, reason=status.get("reason") or "")
        self._result = status.get("status") or ""

    def status(self) -> dict[str, Any]:
        """The Status object a client receives."""
        status = super().status()
        if self._result not in ("", "Success"):
            status["status"] = self._result
        return status
