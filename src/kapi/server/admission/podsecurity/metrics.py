"""The metrics of PodSecurity, under the names that kube-apiserver has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter

from kapi.api.meta import GroupResource
from kapi.registry.request import CREATE
from kapi.server.admission.podsecurity.levels import LATEST, PRIVILEGED

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.registry.request import Write
    from kapi.server.admission.podsecurity.levels import LevelVersion

ALLOW: Final = "allow"
DENY: Final = "deny"

_REQUEST: Final = ("request_operation", "resource", "subresource")
_SERVER_MINOR: Final = 36
"""The version of Kubernetes that this server is compatible with; versions after it are counted as `future`."""
_RESOURCES: Final = {GroupResource("", "pods"): "pod", GroupResource("", "namespaces"): "namespace"}


class PodSecurityMetrics:
    """Counts evaluations, exemptions and errors."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._evaluations = Counter(
            "pod_security_evaluations",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            ("decision", "policy_level", "policy_version", "mode", *_REQUEST),
            registry=registry,
        )
        self._exemptions = Counter(
            "pod_security_exemptions",
            "Number of exempt requests, not counting ignored or out of scope requests.",
            _REQUEST,
            registry=registry,
        )
        self._errors = Counter(
            "pod_security_errors",
            "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted "
            "profile being used for evaluation.",
            ("fatal", *_REQUEST),
            registry=registry,
        )
        # In kube-apiserver these two, and the exemptions, are there from the start.
        privileged = (ALLOW, PRIVILEGED, LATEST, "enforce")
        self._privileged = {
            operation: self._evaluations.labels(*privileged, operation, "pod", "") for operation in ("create", "update")
        }
        for resource in ("pod", "controller"):
            for operation in ("create", "update"):
                self._exemptions.labels(operation, resource, "")

    def evaluated(self, decision: str, policy: LevelVersion, mode: str, write: Write) -> None:
        """Count an evaluation."""
        operation, resource, subresource = _request(write)
        if policy.level == PRIVILEGED and mode == "enforce" and resource == "pod" and not subresource:
            self._privileged[operation].inc()
            return
        version = LATEST if policy.level == PRIVILEGED else policy.version
        minor = policy.minor
        if version != LATEST and minor is not None and minor > _SERVER_MINOR:
            version = "future"
        self._evaluations.labels(decision, policy.level, version, mode, operation, resource, subresource).inc()

    def exempted(self, write: Write) -> None:
        """Count a request that is exempt."""
        self._exemptions.labels(*_request(write)).inc()

    def failed(self, write: Write, *, fatal: bool) -> None:
        """Count an error: a fatal one refuses the request."""
        self._errors.labels("true" if fatal else "false", *_request(write)).inc()


def _request(write: Write) -> tuple[str, str, str]:
    operation = "create" if write.operation == CREATE else "update"
    return operation, _RESOURCES.get(write.resource.group_resource, "controller"), write.subresource
