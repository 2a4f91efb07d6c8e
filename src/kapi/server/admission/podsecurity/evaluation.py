"""Evaluation of Pods by a level at a version: which checks there are, and what they find, in one text.

A check may have changed with versions of Kubernetes, and a check of the restricted level may replace one of baseline.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.server.admission.podsecurity import baseline, restricted
from kapi.server.admission.podsecurity.levels import BASELINE, PRIVILEGED, RESTRICTED
from kapi.server.admission.podsecurity.pod import PodView

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.server.admission.podsecurity.levels import LevelVersion
    from kapi.server.admission.podsecurity.pod import Violation

    Check = Callable[[PodView], Violation | None]


class _Rule(NamedTuple):
    """A check by the minor versions from which on its forms apply."""

    name: str
    level: str
    forms: tuple[tuple[int, Check], ...]
    replaces: str = ""

    def at(self, minor: int) -> Check | None:
        """Return the form of the check at a version, None before its first."""
        return next((check for since, check in reversed(self.forms) if since <= minor), None)


_RULES: Final = (
    _Rule("appArmorProfile", BASELINE, ((0, baseline.app_armor_profile),)),
    _Rule("capabilities_baseline", BASELINE, ((0, baseline.capabilities_baseline),)),
    _Rule("hostNamespaces", BASELINE, ((0, baseline.host_namespaces),)),
    _Rule("hostPathVolumes", BASELINE, ((0, baseline.host_path_volumes),)),
    _Rule("hostPorts", BASELINE, ((0, baseline.host_ports),)),
    _Rule("hostProbesAndHostLifecycle", BASELINE, ((34, baseline.host_probes_and_lifecycle),)),
    _Rule("privileged", BASELINE, ((0, baseline.privileged),)),
    _Rule("procMount", BASELINE, ((0, baseline.proc_mount), (35, baseline.proc_mount_1_35))),
    _Rule("seLinuxOptions", BASELINE, ((0, baseline.selinux_options_1_0), (31, baseline.selinux_options_1_31))),
    _Rule(
        "seccompProfile_baseline", BASELINE, ((0, baseline.seccomp_profile_1_0), (19, baseline.seccomp_profile_1_19))
    ),
    _Rule(
        "sysctls",
        BASELINE,
        (
            (0, baseline.sysctls_1_0),
            (27, baseline.sysctls_1_27),
            (29, baseline.sysctls_1_29),
            (32, baseline.sysctls_1_32),
        ),
    ),
    _Rule("windowsHostProcess", BASELINE, ((0, baseline.windows_host_process),)),
    _Rule(
        "allowPrivilegeEscalation",
        RESTRICTED,
        ((8, restricted.allow_privilege_escalation_1_8), (25, restricted.allow_privilege_escalation_1_25)),
    ),
    _Rule(
        "capabilities_restricted",
        RESTRICTED,
        ((22, restricted.capabilities_restricted_1_22), (25, restricted.capabilities_restricted_1_25)),
        replaces="capabilities_baseline",
    ),
    _Rule("procMount_restricted", RESTRICTED, ((35, baseline.proc_mount),), replaces="procMount"),
    _Rule("restrictedVolumes", RESTRICTED, ((0, restricted.restricted_volumes),), replaces="hostPathVolumes"),
    _Rule("runAsNonRoot", RESTRICTED, ((0, restricted.run_as_non_root_1_0), (35, restricted.run_as_non_root_1_35))),
    _Rule("runAsUser", RESTRICTED, ((23, restricted.run_as_user_1_23), (35, restricted.run_as_user_1_35))),
    _Rule(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, restricted.seccomp_profile_restricted_1_19), (25, restricted.seccomp_profile_restricted_1_25)),
        replaces="seccompProfile_baseline",
    ),
)
"""All checks: baseline before restricted, each in the order of their names, which is the order of the messages."""

LAST_MINOR: Final = max(since for rule in _RULES for since, _ in rule.forms)
"""The last version that has changed a check; later ones, and `latest`, are the same."""


@cache
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    """Return the checks of a level at a version, in the order of the messages."""
    found = [(rule, check) for rule in _RULES if (check := rule.at(minor)) is not None]
    if level == BASELINE:
        return tuple(check for rule, check in found if rule.level == BASELINE)
    replaced = {rule.replaces for rule, _ in found}
    return tuple(check for rule, check in found if rule.name not in replaced)


class Result(NamedTuple):
    """The violations of one Pod."""

    violations: tuple[Violation, ...] = ()

    @property
    def allowed(self) -> bool:
        """True if the Pod passes all checks."""
        return not self.violations

    @property
    def reason(self) -> str:
        """The violations in short: `host namespaces, privileged`."""
        return ", ".join(one.reason for one in self.violations)

    @property
    def detail(self) -> str:
        """The violations with the containers, fields and values that are to blame."""
        return ", ".join(f"{one.reason} ({one.detail})" if one.detail else one.reason for one in self.violations)


ALLOWED: Final = Result()


def evaluate(level: LevelVersion, metadata: Object, spec: Object) -> Result:
    """Check a Pod, or a template of Pods, by a level at a version."""
    if level.level == PRIVILEGED:
        return ALLOWED
    minor = level.minor
    pod = PodView(metadata, spec)
    checks = _checks(level.level, LAST_MINOR if minor is None else min(minor, LAST_MINOR))
    return Result(tuple(found for check in checks if (found := check(pod)) is not None))
