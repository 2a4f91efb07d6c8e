"""The registration of an API server with the aggregator of a cluster: one APIService for each group version."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.base.tls import service_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import GroupVersion, Object
    from kapi.client.rest import RESTClient

API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
FIELD_MANAGER: Final = "kapi-apiserver"
APPLY: Final = "application/apply-patch+yaml"


class ServiceReference(NamedTuple):
    """The Service by which the cluster's aggregator reaches the server."""

    name: str
    namespace: str
    port: int = 443
    """The port of the Service; 0 for the port that the server listens on, behind a Service of type ExternalName."""

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names that the serving certificate must have: the aggregator asks for `name.namespace.svc`."""
        return service_names(self.name, self.namespace, "cluster.local")[1:]


def api_service(
    group_version: GroupVersion,
    service: ServiceReference,
    authority: bytes,
    *,
    group_priority: int = 1000,
    version_priority: int = 15,
) -> Object:
    """Return the APIService of a group version; `authority` is the PEM that the serving certificate is verified with.

    An empty authority leaves `caBundle` out, for a program that adds it.
    """
    spec: Object = {
        "group": group_version.group,
        "version": group_version.version,
        "service": {"name": service.name, "namespace": service.namespace, "port": service.port},
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
    }
    if authority:
        spec["caBundle"] = base64.b64encode(authority).decode()
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{group_version.version}.{group_version.group}"},
        "spec": spec,
    }


async def register(rest: RESTClient, api_services: Iterable[Object]) -> None:
    """Apply APIServices. Raises `ApiError` and `ClientError`."""
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    for one in api_services:
        path = f"{API_SERVICES}/{one['metadata']['name']}"
        await rest.request("PATCH", path, body=one, query=query, content_type=APPLY)
