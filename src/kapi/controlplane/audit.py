"""The auditor of a control plane, made of its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controlplane.options import OptionError
from kapi.server.audit.auditor import Auditor
from kapi.server.audit.logfile import MIB, LogFile, StandardOutput, error_counter
from kapi.server.audit.policy import DEFAULT_POLICY, Policy

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.controlplane.options import AuditOptions
    from kapi.server.audit.auditor import Backend


def auditor_for(options: AuditOptions, clock: Clock, registry: CollectorRegistry) -> Auditor | None:
    """Return the auditor, or None where nothing is to be recorded.

    Raises:
        OptionError: the options contradict each other, or the log cannot be written.
        ConfigFileError: the policy has mistakes.
    """
    if options.log is None:
        if options.policy_file is not None:
            raise OptionError("--audit-policy-file has no effect without a log; add --audit-log FILE")
        return None
    policy = Policy(DEFAULT_POLICY) if options.policy_file is None else Policy.read(options.policy_file)
    errors = error_counter(registry)
    backend: Backend
    if str(options.log) == "-":
        backend = StandardOutput(errors)
    else:
        try:
            backend = LogFile(
                options.log,
                clock,
                errors,
                max_bytes=options.log_max_megabytes * MIB,
                max_backups=options.log_max_backups,
                max_days=options.log_max_days,
            )
        except OSError as error:
            raise OptionError(f"--audit-log {options.log}: {error.strerror}") from None
    return Auditor(policy, [backend], clock, registry)
