"""`kapi up`: run the control plane in the foreground."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from kapi.base.log import configure
from kapi.base.loop import run as run_loop
from kapi.controlplane.admissionoptions import parse_admission
from kapi.controlplane.assemble import ControlPlane, serve
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.authorizationoptions import parse_authorization
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.controllers.names import enabled_controllers
from kapi.controlplane.options import (
    AuditOptions,
    OptionError,
    Options,
    check_storage,
    check_workers,
    join_host_port,
    parse_advertise_address,
    parse_bind,
    parse_inflight,
    parse_service_cidrs,
    parse_service_overrides,
    parse_serving_files,
)
from kapi.server.transport.serve import bind_tcp
from kapi.storage.interface import StorageDamaged, StorageUnavailable, StorageUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kapi.cli.workers import Channel

USAGE = 2
UNAVAILABLE = 1


def run(
    *,
    data_dir: Path,
    bind: str,
    advertise_address: str,
    kubeconfig: Path | None,
    storage: str,
    socket: Path | None,
    history_seconds: float,
    controllers: str,
    event_ttl: float,
    service_cluster_ip_range: str,
    log_level: str,
    log_format: str,
    enable_priority_and_fairness: bool = True,
    max_requests_inflight: int = 400,
    max_mutating_requests_inflight: int = 200,
    encryption_provider_config: Path | None = None,
    audit_log: Path | None = None,
    audit_policy_file: Path | None = None,
    audit_log_maxsize: int = 100,
    audit_log_maxbackup: int = 10,
    audit_log_maxage: int = 0,
    audit_log_mode: str = "batch",
    audit_webhook_config_file: Path | None = None,
    tls_cert_file: Path | None = None,
    tls_private_key_file: Path | None = None,
    tls_san: Sequence[str] = (),
    authorization_mode: str | None = None,
    authorization_config: Path | None = None,
    authorization_webhook_config_file: Path | None = None,
    authorization_webhook_cache_authorized_ttl: str | None = None,
    authorization_webhook_cache_unauthorized_ttl: str | None = None,
    enable_admission_plugins: str = "",
    disable_admission_plugins: str = "",
    admission_control_config_file: Path | None = None,
    default_not_ready_toleration_seconds: int = 300,
    default_unreachable_toleration_seconds: int = 300,
    service_override: Sequence[str] = (),
    pki_dir: Path | None = None,
    shutdown_delay_duration: float = 0.0,
    workers: int = 1,
    **authentication: Any,
) -> int:
    """Run until stopped; returns the exit status. `authentication` are fields of `AuthenticationOptions`."""
    try:
        host, port = parse_bind(bind)
        options = Options(
            data_dir,
            host,
            port,
            kubeconfig,
            check_storage(storage),
            socket,
            history_seconds,
            enabled_controllers(controllers),
            event_ttl,
            parse_service_cidrs(service_cluster_ip_range),
            parse_advertise_address(advertise_address),
            encryption_config=encryption_provider_config,
            flow_control=enable_priority_and_fairness,
            requests_inflight=parse_inflight(max_requests_inflight + max_mutating_requests_inflight),
            audit=AuditOptions(
                audit_log,
                audit_policy_file,
                audit_log_maxsize,
                audit_log_maxbackup,
                audit_log_maxage,
                audit_webhook_config_file,
                log_blocks=audit_log_mode == "blocking",
            ),
            serving_files=parse_serving_files(tls_cert_file, tls_private_key_file),
            serving_names=tuple(tls_san),
            authentication=AuthenticationOptions(**authentication),
            authorization=parse_authorization(
                modes=authorization_mode,
                config_file=authorization_config,
                webhook_config_file=authorization_webhook_config_file,
                authorized_ttl=authorization_webhook_cache_authorized_ttl,
                unauthorized_ttl=authorization_webhook_cache_unauthorized_ttl,
            ),
            admission=parse_admission(
                enable=enable_admission_plugins,
                disable=disable_admission_plugins,
                config_file=admission_control_config_file,
                toleration_seconds=(default_not_ready_toleration_seconds, default_unreachable_toleration_seconds),
            ),
            service_overrides=parse_service_overrides(service_override),
            pki_dir=pki_dir,
            shutdown_delay=shutdown_delay_duration,
        )
        configure(log_level, log_format)
        if check_workers(workers, options) > 1:
            return _run_workers(workers, options)
        return run_loop(_main(options, announce))
    except (OptionError, ValueError) as error:
        return fail(str(error), USAGE)
    except (StorageUnavailable, StorageUnreachable, StorageDamaged, BootstrapError, OSError) as error:
        return fail(explain(error, bind), UNAVAILABLE)


def fail(message: str, status: int) -> int:
    """Print why the command ends, and return its exit status."""
    sys.stderr.write(f"kapi: {message}\n")
    return status


def explain(error: Exception, bind: str) -> str:
    """Return why the control plane cannot start and which option to change, in one line."""
    if isinstance(error, StorageUnavailable):
        # Storage backends do not know the options of a command.
        text = str(error)
        return f"{text}: --data-dir DIR" if text.endswith("choose another data directory") else text
    if not isinstance(error, OSError):
        return str(error)
    if isinstance(error, FileExistsError):
        return f"{error.filename} is not a directory; choose another data directory: --data-dir DIR"
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; choose another path: --data-dir DIR or --kubeconfig FILE"
    host = bind.rpartition(":")[0]
    if isinstance(error, socket.gaierror):
        return f"--bind {bind}: the host cannot be resolved ({error.strerror}); try --bind 127.0.0.1:6443"
    match error.errno:
        case errno.EADDRINUSE:
            return f"{bind} is in use; choose another port: --bind {host}:0"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine; choose another: --bind 127.0.0.1:6443"
        case errno.EACCES:
            return f"no permission to listen on {bind}; choose a port above 1023: --bind {host}:6443"
        case _:
            return error.strerror or str(error)


async def _main(options: Options, ready: Callable[[ControlPlane], None], parent: int | None = None) -> int:
    """Run a control plane until a signal to stop, or until its parent has ended."""
    _raise_file_limit()
    _collect_rarely()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent is not None:
        loop.add_reader(parent, stop.set)
    try:
        return await serve(options, stop, ready)
    finally:
        if parent is not None:
            loop.remove_reader(parent)


def _run_workers(count: int, options: Options) -> int:
    """Run several servers on one address, each in a process of its own."""
    from kapi.cli.workers import Workers

    _collect_rarely()
    family, *_, address = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0]
    # Held without listening: it gets no connections, and keeps the port for the workers.
    with bind_tcp(family, cast("tuple[str | int, ...]", address), shares_port=True) as reserved:
        port: int = reserved.getsockname()[1]
        shared = replace(options, port=port, shares_port=True)

        def serve_one(number: int, channel: Channel) -> int:
            own = replace(shared, worker=number, audit=_audit_of(shared.audit, number))
            try:
                return run_loop(_main(own, lambda _: channel.announce(), channel.parent))
            except (StorageUnavailable, StorageDamaged, BootstrapError, OSError) as error:
                return fail(explain(error, join_host_port(options.host, port)), UNAVAILABLE)

        url = f"https://{join_host_port(shared.local_host, port)}"
        return Workers(count, serve_one, lambda: _announce(url, shared)).run()


def _audit_of(options: AuditOptions, number: int) -> AuditOptions:
    """The audit options of a worker: each writes, and rotates, a file of its own, such as audit-1.log."""
    if options.log is None or str(options.log) == "-":
        return options
    return replace(options, log=options.log.with_stem(f"{options.log.stem}-{number}"))


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit: every connection is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _collect_rarely() -> None:
    """Run Python's garbage collector less often: the objects of requests form no cycles.

    A pass over the young objects looks at 250,000 of them at most, which takes 10 ms: decoding one large request makes
    a million, and a rarer pass would look at all of them at once.
    """
    # No pass before: what was imported is not garbage, and a pass over it takes as long as opening the store.
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 5, 500)


def announce(plane: ControlPlane) -> None:
    """Print the address of the server, and the command to type next."""
    _announce(plane.url, plane.options)


def _announce(url: str, options: Options) -> None:
    path = options.kubeconfig_path.absolute()
    sys.stdout.write(f"Ready at {url}. Next:  export KUBECONFIG={path} && kubectl get namespaces\n")
    sys.stdout.flush()
