"""The configuration of ResourceQuota: resources of which nothing may be used unless a quota covers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.fielderror import required
from kapi.api.meta import GroupResource
from kapi.registry.quota.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object

_SHAPE: Final[Mapping[str, Any]] = {
    "limitedResources": [
        {
            "apiGroup": str,
            "resource": str,
            "matchContains": [str],
            "matchScopes": [{"scopeName": str, "operator": str, "values": [str]}],
        }
    ]
}
KINDS: Final = {
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"): _SHAPE,
    ("resourcequota.admission.k8s.io/v1beta1", "Configuration"): _SHAPE,
    ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"): _SHAPE,
}


class LimitedResource(NamedTuple):
    """A resource, parts of the names of its amounts, and scopes, that a quota must cover."""

    resource: GroupResource
    contains: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()


def configuration_errors(configuration: Object) -> list[FieldError]:
    """Validate a configuration whose shape is right."""
    limited = configuration.get("limitedResources") or ()
    return [
        required(f"limitedResources[{index}].resource") for index, one in enumerate(limited) if not one.get("resource")
    ]


def limited_resources(configuration: Object | None) -> tuple[LimitedResource, ...]:
    """The limited resources of a configuration."""
    return tuple(_limited(one) for one in (configuration or {}).get("limitedResources") or ())


def _limited(one: Object) -> LimitedResource:
    scopes = (
        Scope(scope["scopeName"], scope.get("operator", ""), tuple(scope.get("values") or ()))
        for scope in one.get("matchScopes") or ()
    )
    return LimitedResource(
        GroupResource(one.get("apiGroup") or "", one["resource"]), tuple(one.get("matchContains") or ()), tuple(scopes)
    )
