"""The options of a control plane."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kapi.base.tls import KeyPair
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.controlplane.authorizationoptions import AuthorizationOptions
from kapi.registry.kinds.core.service.ranges import DEFAULT_SERVICE_CIDR, SHORTEST_IPV6_PREFIX
from kapi.server.flowcontrol.control import DEFAULT_SEATS
from kapi.server.serviceaddress import ServiceReference
from kapi.storage.etcd.address import SCHEME, AddressError, parse_address, without_password

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.server.serviceaddress import ServiceOverrides

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
    log_blocks: bool = False
    """True if every event is written before its response; otherwise, those of reads may be written a moment later."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `kapi up`, checked."""

    data_dir: Path = DEFAULT_DATA_DIR
    host: str = "127.0.0.1"
    port: int = 6443
    kubeconfig: Path | None = None
    storage: str = "sqlite"
    """`sqlite`, `memory`, or the address of an etcd cluster, see `storage.etcd.address`."""
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

    pki_dir: Path | None = None
    """The folder of the CA, the admin's credentials and the key of service accounts' tokens, which all servers of a
    store share; None for `pki` in `data_dir`. A certificate that is issued for this server is always there."""
    shutdown_delay: float = 0.0
    """Seconds for which requests are served after the signal to stop, while readiness fails already."""

    shares_port: bool = False
    """True if other processes listen on the same address and port."""
    worker: int = 0
    """The number of this server among those that share its address; 0 if it is the only one."""

    listen: bool = True
    """False to open no port: requests come from this process only, until `ControlPlane.listen` is called."""
    serving_files: KeyPair | None = None
    """The server's certificate and key; None: they are issued by the authority in `data_dir`."""
    serving_names: tuple[str, ...] = ()
    """Further host names and addresses in the certificate that is issued."""
    service_overrides: ServiceOverrides = field(default_factory=dict)
    """Addresses on this machine that are called instead of Services that webhooks or API servers are behind."""
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)

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
    def shares_store(self) -> bool:
        """True if other servers may use the same store."""
        return self.storage.startswith(SCHEME)

    @property
    def pki_path(self) -> Path:
        """The folder of what all servers of a store share."""
        return self.pki_dir or self.data_dir / "pki"

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


def parse_service_overrides(texts: Sequence[str]) -> ServiceOverrides:
    """Read overrides of Services: NAMESPACE/NAME[:PORT]=HOST:PORT, where the host is a loopback address."""
    overrides: dict[ServiceReference, tuple[str, int]] = {}
    for text in texts:
        service, equals, target = text.partition("=")
        namespace, slash, name = service.partition("/")
        name, colon, port = name.partition(":")
        flag = f"--service-override {text!r}"
        if not (equals and slash and namespace and name) or (colon and not _is_port(port)):
            raise OptionError(f"{flag}: expected NAMESPACE/NAME[:PORT]=HOST:PORT, such as apps/hook=127.0.0.1:9443")
        host, colon, target_port = target.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not _is_loopback(host) or not _is_port(target_port):
            raise OptionError(f"{flag}: expected a loopback address and a port after the equals sign")
        overrides[ServiceReference(namespace, name, int(port or 0))] = host, int(target_port)
    return overrides


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


def check_workers(count: int, options: Options) -> int:
    """Check the number of worker processes."""
    if count < 1:
        raise OptionError(f"--workers {count}: expected at least 1")
    if count == 1:
        return count
    if not options.shares_store:
        raise OptionError(
            f"--workers {count}: the store {options.storage} is used by one process at a time; several need one that"
            " they share: --storage etcd://HOST:PORT,..."
        )
    if options.socket is not None:
        raise OptionError(f"--workers {count}: several processes cannot listen on one --socket; leave one of them out")
    return count


def check_storage(text: str) -> str:
    """Read the name of a storage backend, or the address of an etcd cluster."""
    if text in ("sqlite", "memory"):
        return text
    if text.startswith(SCHEME):
        try:
            parse_address(text)
        except AddressError as error:
            shown = without_password(text.partition("?")[0])
            raise OptionError(f"--storage {shown}: {error}") from None
        return text
    raise OptionError(f"--storage {text!r}: expected sqlite, memory or etcd://HOST:PORT,...")
