"""CA injection: the `caBundle` of webhook configurations and of definitions with conversion webhooks.

Only the bundle is changed, and only where it differs; what others change at the same time is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapi.api.meta import Object
    from kapi.client.client import Client

VALIDATING: Final = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
MUTATING: Final = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

_ATTEMPTS: Final = 10


async def inject_ca(
    client: Client,
    ca_bundle: str,
    *,
    validating: Iterable[str] = (),
    mutating: Iterable[str] = (),
    definitions: Iterable[str] = (),
) -> None:
    """Put the bundle into every webhook of these configurations and the conversion of these definitions.

    `NotFound` when there is none of a name, `ValueError` for a definition that is not converted by a webhook.
    """
    for name in validating:
        await _inject(client, VALIDATING, name, ca_bundle, _webhooks)
    for name in mutating:
        await _inject(client, MUTATING, name, ca_bundle, _webhooks)
    for name in definitions:
        await _inject(client, DEFINITION, name, ca_bundle, _conversion)


async def _inject(
    client: Client, kind: tuple[str, str], name: str, bundle: str, places: Callable[[Object], list[Object]]
) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        obj = await client.get(kind, name)
        configs = places(obj)
        if all(config.get("caBundle") == bundle for config in configs):
            return
        for config in configs:
            config["caBundle"] = bundle
        try:
            await client.update(obj)
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _webhooks(obj: Object) -> list[Object]:
    hooks: list[Any] = obj.get("webhooks") or []
    return [hook.setdefault("clientConfig", {}) for hook in hooks]


def _conversion(obj: Object) -> list[Object]:
    conversion = obj["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        raise ValueError(f"{obj['metadata']['name']} is not converted by a webhook: set spec.conversion.strategy first")
    config: Object = conversion.setdefault("webhook", {}).setdefault("clientConfig", {})
    return [config]
