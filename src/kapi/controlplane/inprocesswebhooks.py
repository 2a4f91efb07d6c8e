"""Admission functions of the program that embeds a control plane, as webhooks of its admission chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controller.webhook.registration import webhook_object
from kapi.server.admission.webhooks.functions import Function

if TYPE_CHECKING:
    from kapi.controller.webhook.functions import WebhookFunctions


def in_process(webhooks: WebhookFunctions) -> list[Function]:
    """Return the functions, each with the webhook that its class and `Match` describe."""
    # The resource of a kind may not be defined yet, so the rules cover all; functions see objects of their kind only.
    return [
        Function(hook.action == "mutate", hook.gvk, webhook_object(hook, "*"), review)
        for hook, review in webhooks.registered()
    ]
