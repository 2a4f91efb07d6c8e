"""The PodSecurity plug-in: refuses, audits and warns about Pods by the labels of their namespace.

Pods are refused; workloads are only warned about and audited, since their Pods are refused when they are created. The
labels of namespaces are validated, and a namespace that gets a stricter level is answered with warnings about the Pods
that it has already.

The checks are imported when the first namespace asks for them: most servers start, and many end, without one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import Forbidden, InternalError, Invalid
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.meta import GroupResource
from kapi.registry.initializers import is_unseen
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.podsecurity.levels import (
    AUDIT,
    AUDIT_VERSION,
    ENFORCE,
    ENFORCE_VERSION,
    PREFIX,
    PRIVILEGED,
    WARN,
    WARN_VERSION,
    LevelVersion,
    is_stricter,
    policy_of,
)
from kapi.server.admission.podsecurity.metrics import ALLOW, DENY, PodSecurityMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.admission.podsecurity.configuration import PodSecurityConfiguration
    from kapi.server.admission.podsecurity.evaluation import Result
    from kapi.server.admission.podsecurity.existingpods import ExistingPods
    from kapi.server.admission.podsecurity.levels import Policy

NAMESPACES: Final = GroupResource("", "namespaces")
PODS: Final = GroupResource("", "pods")
TEMPLATES: Final = {
    GroupResource("", "replicationcontrollers"): ("spec", "template"),
    GroupResource("", "podtemplates"): ("template",),
    GroupResource("apps", "replicasets"): ("spec", "template"),
    GroupResource("apps", "deployments"): ("spec", "template"),
    GroupResource("apps", "statefulsets"): ("spec", "template"),
    GroupResource("apps", "daemonsets"): ("spec", "template"),
    GroupResource("batch", "jobs"): ("spec", "template"),
    GroupResource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""The workloads, and where each has the template of its Pods."""
IGNORED_SUBRESOURCES: Final = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)

_EXEMPT: Final = f"{PREFIX}exempt"
_VIOLATIONS: Final = f"{PREFIX}audit-violations"
_ENFORCED: Final = f"{PREFIX}enforce-policy"
_ERROR: Final = f"{PREFIX}error"
_LATEST_PRIVILEGED: Final = str(LevelVersion(PRIVILEGED))


class Evaluation(NamedTuple):
    """A Pod or a template of Pods that is to be evaluated, and the policy of its namespace."""

    metadata: Object
    spec: Object
    policy: Policy
    errors: list[FieldError]
    """What is wrong with the labels of the namespace."""
    enforce: bool


class PodSecurity:
    """Applies the Pod Security Standards."""

    reads_only = True

    def __init__(
        self, catalog: Catalog, configuration: PodSecurityConfiguration, registry: CollectorRegistry, clock: Clock
    ) -> None:
        self._namespaces = catalog.store("namespaces")
        self._configuration = configuration
        self._defaults = configuration.defaults
        self._pods = catalog.store("pods")
        self._clock = clock
        self._existing: ExistingPods | None = None
        self._metrics = PodSecurityMetrics(registry)

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for namespaces, Pods and workloads that are created or updated."""
        if operation not in (CREATE, UPDATE):
            return False
        if resource.group_resource == PODS:
            return subresource not in IGNORED_SUBRESOURCES
        return not subresource and (resource.group_resource == NAMESPACES or resource.group_resource in TEMPLATES)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse, audit or warn."""
        if obj is None:
            return
        resource = write.resource.group_resource
        evaluation: Evaluation | None = None
        if resource == PODS:
            evaluation = self._validate_pod(write, obj, old)
        elif resource == NAMESPACES:
            await self._validate_namespace(write, obj, old)
        else:
            evaluation = self._validate_workload(write, obj)
        if evaluation is not None:
            await self._evaluate(write, evaluation)

    # -- Pods and workloads -------------------------------------------------------------------------------------------

    def _validate_pod(self, write: Write, obj: Object, old: Object | None) -> Evaluation | None:
        """Return what is to be evaluated; None for a Pod that is exempt or in a namespace that allows everything."""
        if self._is_exempt(write):
            return None
        item = self._namespaces.find("", write.namespace)
        if item is None:
            why = f'failed to lookup namespace "{write.namespace}"'
            write.audit_annotations[_ERROR] = f'{why}: namespaces "{write.namespace}" not found'
            self._metrics.failed(write, fatal=True)
            raise InternalError.of(why)
        policy, errors = policy_of(item.labels, self._defaults)
        if not errors and policy.is_privileged:
            write.audit_annotations[_ENFORCED] = _LATEST_PRIVILEGED
            self._metrics.evaluated(ALLOW, policy.enforce, "enforce", write)
            return None
        if old is not None and not is_unseen(write, old) and not _is_significant(obj["spec"], old["spec"]):
            return None
        return Evaluation(obj["metadata"], obj["spec"], policy, errors, enforce=True)

    def _validate_workload(self, write: Write, obj: Object) -> Evaluation | None:
        """Return what is to be evaluated, as for a Pod."""
        if self._is_exempt(write):
            return None
        item = self._namespaces.find("", write.namespace)
        if item is None:
            why = f'failed to lookup namespace "{write.namespace}": namespaces "{write.namespace}" not found'
            write.audit_annotations[_ERROR] = why
            self._metrics.failed(write, fatal=True)
            return None
        policy, errors = policy_of(item.labels, self._defaults)
        if not errors and policy.warn.level == policy.audit.level == PRIVILEGED:
            return None
        template: Object | None = obj
        for field in TEMPLATES[write.resource.group_resource]:
            template = (template or {}).get(field)
        if template is None:
            return None
        metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
        return Evaluation(metadata, spec, policy, errors, enforce=False)

    def _is_exempt(self, write: Write) -> bool:
        """Return True, and say so, if the namespace or the user is exempt."""
        if write.namespace in self._configuration.namespaces:
            reason = "namespace"
        elif write.user.name in self._configuration.usernames:
            reason = "user"
        else:
            return False
        self._exempt(write, reason)
        return True

    def _exempt(self, write: Write, reason: str) -> None:
        write.audit_annotations[_EXEMPT] = reason
        self._metrics.exempted(write)

    async def _evaluate(self, write: Write, wanted: Evaluation) -> None:
        metadata, spec, policy, errors, enforce = wanted
        if spec.get("runtimeClassName") in self._configuration.runtime_classes:
            self._exempt(write, "runtimeClass")
            return
        annotations = write.audit_annotations
        if errors:
            annotations[_ERROR] = f"Failed to parse policy: {_aggregate(errors)}"
            self._metrics.failed(write, fatal=False)
        levels = policy if enforce else policy[1:]
        if write.object_bytes < OFF_LOOP_BYTES:
            results = _results(levels, metadata, spec)
        else:
            results = await asyncio.to_thread(_results, levels, metadata, spec)
        if enforce:
            annotations[_ENFORCED] = str(policy.enforce)
            decision = ALLOW if results[policy.enforce].allowed else DENY
            self._metrics.evaluated(decision, policy.enforce, "enforce", write)
        audited, warned = results[policy.audit], results[policy.warn]
        if not audited.allowed:
            annotations[_VIOLATIONS] = f'would violate PodSecurity "{policy.audit}": {audited.detail}'
            self._metrics.evaluated(DENY, policy.audit, "audit", write)
        if enforce and not results[policy.enforce].allowed:
            why = f'violates PodSecurity "{policy.enforce}": {results[policy.enforce].detail}'
            raise Forbidden.of(write.resource.group_resource, write.name or metadata.get("name", ""), why)
        if not warned.allowed:
            write.warnings.append(f'would violate PodSecurity "{policy.warn}": {warned.detail}')
            self._metrics.evaluated(DENY, policy.warn, "warn", write)

    # -- namespaces ---------------------------------------------------------------------------------------------------

    async def _validate_namespace(self, write: Write, obj: Object, old: Object | None) -> None:
        name = write.name or obj["metadata"].get("name", "")
        labels = obj["metadata"].get("labels") or {}
        policy, errors = policy_of(labels, self._defaults)
        if old is None:
            if errors:
                raise Invalid.of(write.resource.group_kind, name, errors)
            self._warn_of_exemption(write, name, policy, labels)
            return
        before, old_errors = policy_of(old["metadata"].get("labels"), self._defaults)
        if errors and errors != old_errors:
            raise Invalid.of(write.resource.group_kind, name, errors)
        wanted, current = policy.enforce, before.enforce
        if wanted == current or wanted.level == PRIVILEGED:
            return
        if wanted.version == current.version and not is_stricter(wanted.level, current.level):
            return
        if name in self._configuration.namespaces:
            self._warn_of_exemption(write, name, policy, labels)
        else:
            write.warnings += await self._existing_pods().warnings(name, wanted)

    def _existing_pods(self) -> ExistingPods:
        from kapi.server.admission.podsecurity.existingpods import ExistingPods

        if self._existing is None:
            self._existing = ExistingPods(self._pods, self._configuration.runtime_classes, self._clock)
        return self._existing

    def _warn_of_exemption(self, write: Write, name: str, policy: Policy, labels: Object) -> None:
        """Warn that the labels of an exempt namespace are without effect."""
        if name not in self._configuration.namespaces:
            return
        if policy.is_privileged or policy.is_equivalent(self._defaults):
            return
        modes = (
            ("enforce", policy.enforce, ENFORCE, ENFORCE_VERSION),
            ("audit", policy.audit, AUDIT, AUDIT_VERSION),
            ("warn", policy.warn, WARN, WARN_VERSION),
        )
        ignored = ", ".join(
            f"{mode}={level}"
            for mode, level, label, version_label in modes
            if level.level != PRIVILEGED and (label in labels or version_label in labels)
        )
        write.warnings.append(
            f'namespace "{name}" is exempt from Pod Security, and the policy ({ignored}) will be ignored'
        )


def _results(levels: Iterable[LevelVersion], metadata: Object, spec: Object) -> dict[LevelVersion, Result]:
    """Return the results by level; in a thread where the object is large."""
    from kapi.server.admission.podsecurity.evaluation import evaluate

    return {level: evaluate(level, metadata, spec) for level in dict.fromkeys(levels)}


def _is_significant(spec: Object, old: Object) -> bool:
    """Return True if an update of a Pod adds containers or changes an image; nothing else that may change matters."""
    for sort in ("containers", "initContainers"):
        images, before = _images(spec, sort), _images(old, sort)
        if [image for _, image in images] != [image for _, image in before]:
            return True
    known = set(_images(old, "ephemeralContainers"))
    return any(one not in known for one in _images(spec, "ephemeralContainers"))


def _images(spec: Object, sort: str) -> list[tuple[str, str]]:
    return [(one.get("name", ""), one.get("image", "")) for one in spec.get(sort) or ()]


def _aggregate(errors: list[FieldError]) -> str:
    """Return several errors in one text, as Go's aggregate prints them."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
