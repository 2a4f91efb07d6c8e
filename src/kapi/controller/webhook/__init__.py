"""Webhooks of an operator as plain functions: validating, mutating, conversion.

In reading order: `functions` collects and `server` serves the webhooks; `admission` and `conversion` are the requests
and responses of functions; `registration` writes the webhook configurations; `certificates` and `injection` make API
servers trust the server; `review` and `diff` are the wire format; `metrics` are the Prometheus metrics.
"""

from kapi.controller.webhook.admission import AdmissionRequest, Allowed, Denied, UserInfo
from kapi.controller.webhook.certificates import Certificates, Mounted, SelfSigned
from kapi.controller.webhook.conversion import ConversionFailed, Spoke
from kapi.controller.webhook.functions import WebhookFunctions
from kapi.controller.webhook.injection import inject_ca
from kapi.controller.webhook.registration import Match, Registration
from kapi.controller.webhook.server import WebhookServer

__all__ = [
    "AdmissionRequest",
    "Allowed",
    "Certificates",
    "ConversionFailed",
    "Denied",
    "Match",
    "Mounted",
    "Registration",
    "SelfSigned",
    "Spoke",
    "UserInfo",
    "WebhookFunctions",
    "WebhookServer",
    "inject_ca",
]
