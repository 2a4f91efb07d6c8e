"""The options of a control plane."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from kapi.base.tls import KeyPair
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.authorizationoptions import AuthorizationOptions
from kapi.registry.kinds.core.service.ranges import DEFAULT_SERVICE_CIDR, SHORTEST_IPV6_PREFIX
from kapi.server.flowcontrol.control import DEFAULT_SEATS

DEFAULT_DATA_DIR = Path(".kapi")
DEFAULT_BIND = "127.0.0.1:6443"
DRAIN_SECONDS = 10.0


class OptionError(ValueError):
    """An option that cannot be used; the message says what would be valid."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What to record of requests, and where."""

    log: Path | None = None
    """The log file; `-` for standard output, None for no log."""
    policy_file: Path | None = None
    """The policy; None for the default one."""
    log_max_megabytes: int = 100
    log_max_backups: int = 10
    log_max_days: int = 0
    webhook_config_file: Path | None = None
    """The kubeconfig of a webhook that gets the events too; None for none."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `kapi up`, checked."""

    data_dir: Path = DEFAULT_DATA_DIR
    host: str = "127.0.0.1"
    port: int = 6443
    kubeconfig: Path | None = None
    storage: str = "sqlite"
    socket: Path | None = None
    history_seconds: float = 300.0
    controllers: frozenset[str] | None = None
    """The names of the enabled built-in controllers, see `controllers.names`; None enables all."""
    event_seconds: float = 3600.0
    """The time after which an Event that is not written again is deleted."""

    service_cidrs: tuple[str, ...] = (DEFAULT_SERVICE_CIDR,)
    """The ranges of cluster IPs, at most one per IP family, the primary one first."""
    advertise_address: str = ""
    """The IP address at which other machines reach this server: in the endpoints of Service `kubernetes`, in discovery
    and in the server's certificate. Empty for the host it binds to."""

    audit: AuditOptions = AuditOptions()
    encryption_config: Path | None = None
    """The EncryptionConfiguration of stored objects; None to store them as they are."""
    flow_control: bool = True
    """False to run every request at once, however many there are."""
    requests_inflight: int = DEFAULT_SEATS
    """The seats of flow control: requests that run at a time."""

    serving_files: KeyPair | None = None
    """The server's certificate and key; None: they are issued by the authority in `data_dir`."""
    serving_names: tuple[str, ...] = ()
    """Further host names and addresses in the certificate that is issued."""
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)

    @property
    def binds_all(self) -> bool:
        """True if the server listens on every address of the machine."""
        return self.host in ("0.0.0.0", "::")  # noqa: S104 (a comparison, not a bind)

    @property
    def public_host(self) -> str:
        """The address that other machines are told."""
        return self.advertise_address or self.host

    @property
    def local_host(self) -> str:
        """The address for clients on this machine, and in the kubeconfig."""
        if not self.binds_all:
            return self.host
        return self.advertise_address or ("127.0.0.1" if self.host == "0.0.0.0" else "::1")  # noqa: S104

    @property
    def kubeconfig_path(self) -> Path:
        """The path of the admin's kubeconfig."""
        return self.kubeconfig or self.data_dir / "admin.kubeconfig"


def join_host_port(host: str, port: int) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_bind(text: str) -> tuple[str, int]:
    """Read HOST:PORT, with [brackets] around an IPv6 address; port 0 picks a free one."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not number or int(port) > 65535:
        raise OptionError(f"--bind {text!r}: expected HOST:PORT with a port from 0 to 65535, such as {DEFAULT_BIND}")
    return host, int(port)


def parse_service_cidrs(text: str) -> tuple[str, ...]:
    """Read the ranges of cluster IPs: one, or one of each IP family by a comma, the primary one first."""
    flag = f"--service-cluster-ip-range {text!r}"
    try:
        networks = [ipaddress.ip_network(one.strip()) for one in text.split(",")]
    except ValueError as error:
        raise OptionError(f"{flag}: {error}; expected one or two ranges such as {DEFAULT_SERVICE_CIDR}") from None
    if len({network.version for network in networks}) != len(networks):
        raise OptionError(f"{flag}: expected at most one range of IPv4 and one of IPv6")
    for network in networks:
        if network.version == 6 and network.prefixlen < SHORTEST_IPV6_PREFIX:
            raise OptionError(
                f"{flag}: the prefix of {network} is too short; expected /{SHORTEST_IPV6_PREFIX} or longer"
            )
        if network.num_addresses < 8:
            raise OptionError(f"{flag}: {network} has fewer than 8 addresses")
    return tuple(map(str, networks))


def parse_advertise_address(text: str) -> str:
    """Read an IP address that other machines can reach; empty for none."""
    if not text:
        return ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise OptionError(f"--advertise-address {text!r}: expected an IP address, such as 192.168.1.10") from None
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local:
        raise OptionError(f"--advertise-address {text!r}: expected an address at which other machines reach this one")
    return str(address)


def parse_serving_files(certificate: Path | None, key: Path | None) -> KeyPair | None:
    """Read the files of the server's certificate; None for neither."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise OptionError("--tls-cert-file and --tls-private-key-file: expected both or neither")
    return KeyPair(certificate, key)


def parse_inflight(total: int) -> int:
    """Check the number of requests that may run at a time."""
    if total < 1:
        raise OptionError(
            "--max-requests-inflight and --max-mutating-requests-inflight: expected at least 1 in all; "
            "use --enable-priority-and-fairness=false for no limit"
        )
    return total


def check_storage(text: str) -> str:
    """Read the name of a storage backend."""
    if text in ("sqlite", "memory"):
        return text
    if text.startswith("etcd://"):
        raise OptionError("--storage etcd://…: etcd is not supported by this version; use sqlite or memory")
    raise OptionError(f"--storage {text!r}: expected sqlite or memory")
