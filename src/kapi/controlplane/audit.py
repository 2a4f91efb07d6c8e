"""The auditor of a control plane, made of its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controlplane.options import OptionError
from kapi.server.audit.auditor import Auditor
from kapi.server.audit.logfile import MIB, LogFile, StandardOutput, error_counter
from kapi.server.audit.policy import DEFAULT_POLICY, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from prometheus_client import CollectorRegistry, Counter

    from kapi.base.clock import Clock
    from kapi.controlplane.options import AuditOptions
    from kapi.server.audit.auditor import Backend


def auditor_for(options: AuditOptions, clock: Clock, registry: CollectorRegistry) -> Auditor | None:
    """Return the auditor, or None where nothing is to be recorded.

    Raises:
        OptionError: the options contradict each other, or the log cannot be written.
        ConfigFileError: the policy has mistakes.
    """
    if options.log is None and options.webhook_config_file is None:
        if options.policy_file is not None:
            raise OptionError("--audit-policy-file has no effect without a log; add --audit-log FILE")
        return None
    policy = Policy(DEFAULT_POLICY) if options.policy_file is None else Policy.read(options.policy_file)
    errors = error_counter(registry)
    backends: list[Backend] = []
    tasks: dict[str, Callable[[], Coroutine[object, object, None]]] = {}
    if options.webhook_config_file is not None:
        # Imported here: most servers call no webhook, and its libraries take a while to import.
        from kapi.server.audit.webhook import AuditWebhook
        from kapi.server.webhooks.kubeconfig import read_webhook_config

        webhook = AuditWebhook(read_webhook_config(options.webhook_config_file), errors)
        backends.append(webhook)
        tasks["audit-webhook"] = webhook.run
    if options.log is not None:
        backends.append(_log(options.log, options, clock, errors))
    auditor = Auditor(policy, backends, clock, registry, defers_reads=not options.log_blocks)
    auditor.tasks = tasks
    return auditor


def _log(path: Path, options: AuditOptions, clock: Clock, errors: Counter) -> Backend:
    if str(path) == "-":
        return StandardOutput(errors)
    try:
        return LogFile(
            path,
            clock,
            errors,
            max_bytes=options.log_max_megabytes * MIB,
            max_backups=options.log_max_backups,
            max_days=options.log_max_days,
        )
    except OSError as error:
        raise OptionError(f"--audit-log {path}: {error.strerror}") from None
