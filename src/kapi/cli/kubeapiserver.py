"""The control plane under the name and the flags of kube-apiserver, for programs that start one, such as envtest.

Flags that Kapi has are passed on to `kapi up`; some are said differently there; those about etcd mean nothing, since
objects are kept in memory. All others are named in a warning and ignored, so that a suite with a flag that makes no
difference to it need not be changed. Garbage collection, namespace deletion and the other built-in controllers run.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kapi.base.version import VERSION
from kapi.cli.command import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PASSED: Final = frozenset(
    {
        "admission-control-config-file",
        "api-audiences",
        "audit-log-maxage",
        "audit-log-maxbackup",
        "audit-log-maxsize",
        "audit-log-path",
        "audit-policy-file",
        "audit-webhook-config-file",
        "authentication-config",
        "authentication-token-webhook-cache-ttl",
        "authentication-token-webhook-config-file",
        "authentication-token-webhook-version",
        "authorization-config",
        "authorization-mode",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
        "authorization-webhook-config-file",
        "client-ca-file",
        "disable-admission-plugins",
        "enable-admission-plugins",
        "enable-priority-and-fairness",
        "encryption-provider-config",
        "max-mutating-requests-inflight",
        "max-requests-inflight",
        "oidc-ca-file",
        "oidc-client-id",
        "oidc-groups-claim",
        "oidc-groups-prefix",
        "oidc-issuer-url",
        "oidc-required-claim",
        "oidc-signing-algs",
        "oidc-username-claim",
        "oidc-username-prefix",
        "proxy-client-cert-file",
        "proxy-client-key-file",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "service-account-extend-token-expiration",
        "service-account-issuer",
        "service-account-jwks-uri",
        "service-account-key-file",
        "service-account-max-token-expiration",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "tls-cert-file",
        "tls-private-key-file",
        "token-auth-file",
    }
)
"""Flags that `kapi up` has under the same name."""

TRANSLATED: Final = frozenset({"advertise-address", "bind-address", "cert-dir", "event-ttl", "secure-port"})
"""Flags that `kapi up` has under another name or with other values."""

MEANINGLESS: Final = frozenset({"allow-privileged", "insecure-port", "logtostderr", "storage-backend", "v"})
"""Flags that change nothing that a client could see; so are those that begin with `etcd-`."""

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def help_text() -> str:
    """The flags, in the way of kube-apiserver's help: envtest looks there for what it may pass."""
    flags = sorted(PASSED | TRANSLATED | {"allow-privileged", "etcd-servers"})
    return "Kapi in the place of kube-apiserver.\n\nFlags:\n" + "".join(f"      --{flag}\n" for flag in flags)


def flags_of(arguments: Iterable[str]) -> list[tuple[str, str | None]]:
    """Read `--name=value`, `--name value` and `--name`; kube-apiserver has no other arguments."""
    flags: list[tuple[str, str | None]] = []
    for argument in arguments:
        if argument.startswith("-"):
            name, equals, value = argument.lstrip("-").partition("=")
            flags.append((name.replace("_", "-"), value if equals else None))
        elif flags and flags[-1][1] is None:
            flags[-1] = (flags[-1][0], argument)
    return flags


def translate(arguments: Iterable[str], data_dir: Path) -> tuple[list[str], list[str]]:
    """Return the arguments of `kapi up` that flags of kube-apiserver stand for, and warnings about the others."""
    flags = flags_of(arguments)
    last = {name: value or "" for name, value in flags}
    host, port = last.get("bind-address") or "127.0.0.1", last.get("secure-port") or "6443"
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    given = [f"--data-dir={data_dir}", f"--bind={bind}", "--storage=memory", "--log-level=warning"]
    warnings = []
    for name, value in flags:
        if name in PASSED:
            given.append(f"--{name}" if value is None else f"--{name}={value}")
        elif name not in TRANSLATED | MEANINGLESS and not name.startswith("etcd-"):
            warnings.append(f"--{name} is not a flag of Kapi, and is ignored")
    if "event-ttl" in last:
        given.append(f"--event-ttl={_seconds(last['event-ttl'])}")
    if "advertise-address" in last and not _is_loopback(last["advertise-address"]):
        given.append(f"--advertise-address={last['advertise-address']}")
    if "tls-cert-file" not in last and last.get("cert-dir"):
        given += _serving_files(Path(last["cert-dir"]))
    return given, warnings


def _serving_files(folder: Path) -> list[str]:
    """The certificate in kube-apiserver's `--cert-dir`, if there is one; else one is issued."""
    certificate, key = folder / "apiserver.crt", folder / "apiserver.key"
    if not certificate.exists() or not key.exists():
        return []
    return [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]


def _is_loopback(text: str) -> bool:
    # Suites of old pass 127.0.0.1, which no other machine could use; Kapi asks for an address that one could.
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _seconds(text: str) -> float:
    """A duration as Go prints it, such as 1h0m0s, or a number of seconds."""
    parts = re.findall(r"([0-9.]+)(ms|h|m|s)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text or 0)


def main(arguments: Sequence[str]) -> int:
    """Run until stopped; returns the exit status."""
    if "--version" in arguments:
        sys.stdout.write(f"Kubernetes v1.36.0+kapi-{VERSION}\n")
        return 0
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(help_text())
        return 0
    # After these, which envtest calls first: the imports of a server take longer than all of the above.
    from kapi.cli.main import add_up_options
    from kapi.cli.up import run

    folder = Path(tempfile.mkdtemp(prefix="kapi-envtest-"))
    try:
        given, warnings = translate(arguments, folder)
        for warning in warnings:
            sys.stderr.write(f"kube-apiserver (Kapi): {warning}\n")
        parser = Parser("kube-apiserver", "[FLAG...]", "Kapi in the place of kube-apiserver.")
        add_up_options(parser)
        return run(**vars(parser.parse_args(given)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
