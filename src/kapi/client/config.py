"""The configuration of a client: the address of the server, the authorities to trust, and the credentials to present.

A `ClientConfig` is a plain value, and its class methods make one: from kubeconfig files as kubectl reads them, from the
files of the service account mounted into a pod, or from an explicit address. Nothing is sent from here, and files with
secrets are read where they are used, in `auth.credentials`.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.base.version import VERSION
from kapi.client.errors import ConfigError
from kapi.client.files import read_file
from kapi.client.transport.proxy import names_a_host, without_password

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.client.auth.execplugin import ExecConfig

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USER_AGENT: Final = f"kapi/{VERSION} ({platform.system().lower()}/{platform.machine()})"
MIB: Final = 1024 * 1024

_CREDENTIAL: Final = {"credential": True}
_SECRET: Final = {"credential": True, "secret": True}


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The address of one API server and the credentials of one user.

    As in a kubeconfig, data wins over a file of the same thing, but a token file wins over a token, which is there for
    the time until the file can be read. Time-outs are in seconds. Without a `proxy` the environment's counts.

    With `qps` a client sends at most so many requests a second on average, and `burst` at once; without, there is no
    limit: priority and fairness on the server protects it better than clients can.

    What a server can make a client hold in memory is bounded, in bytes after decompression: `max_response_bytes` for
    one answer, `max_event_bytes` for one event of a watch, `max_list_bytes` for a whole list; a list has at most
    `max_pages` pages. Zero means no bound. Informers list a collection that is larger than one answer in pages.

    Printing a config never shows a secret, and `anonymous` drops all credentials.
    """

    server: str
    ca_file: Path | None = None
    ca_data: bytes = b""
    cert_file: Path | None = field(default=None, metadata=_CREDENTIAL)
    cert_data: bytes = field(default=b"", metadata=_SECRET)
    key_file: Path | None = field(default=None, metadata=_CREDENTIAL)
    key_data: bytes = field(default=b"", metadata=_SECRET)
    token: str = field(default="", metadata=_SECRET)
    token_file: Path | None = field(default=None, metadata=_CREDENTIAL)
    username: str = field(default="", metadata=_CREDENTIAL)
    password: str = field(default="", metadata=_SECRET)
    impersonate_user: str = field(default="", metadata=_CREDENTIAL)
    impersonate_uid: str = field(default="", metadata=_CREDENTIAL)
    impersonate_groups: tuple[str, ...] = field(default=(), metadata=_CREDENTIAL)
    impersonate_extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), metadata=_CREDENTIAL)
    exec: ExecConfig | None = field(default=None, metadata=_CREDENTIAL)
    namespace: str = "default"
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = ""
    timeout: float = 30.0
    connect_timeout: float = 10.0
    user_agent: str = USER_AGENT
    qps: float = 0.0
    burst: int = 10
    max_response_bytes: int = 256 * MIB
    max_event_bytes: int = 32 * MIB
    max_list_bytes: int = 4096 * MIB
    max_pages: int = 100_000

    def __post_init__(self) -> None:
        shown = without_password(self.server)
        if not self.server.startswith(("https://", "http://")):
            raise ConfigError(f"the server's address {shown!r} must begin with https:// or http://")
        if shown != self.server:
            raise ConfigError(f"the server's address {shown!r} must not have credentials in it; give them apart")
        if not names_a_host(self.server):
            raise ConfigError(f"the server's address {shown!r} cannot be used: it names no host")
        for bound in ("max_response_bytes", "max_event_bytes", "max_list_bytes", "max_pages"):
            if getattr(self, bound) < 0:
                raise ConfigError(f"{bound} must not be negative; zero means no bound")
        if self.insecure and (self.ca_file or self.ca_data):
            raise ConfigError("an authority and insecure-skip-tls-verify contradict each other; give one of them")

    def __repr__(self) -> str:
        shown = []
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if value != entry.default:
                value = without_password(value) if entry.name == "proxy" else value
                text = "<hidden>" if entry.metadata.get("secret") else repr(value)
                shown.append(f"{entry.name}={text if len(text) < 200 else text[:200] + '...'}")
        return f"ClientConfig({', '.join(shown)})"

    @property
    def is_tls(self) -> bool:
        """Return True if the connection is encrypted."""
        return self.server.startswith("https://")

    @property
    def has_credentials(self) -> bool:
        """Return True if there are any credentials."""
        return self != self.anonymous()

    def anonymous(self) -> ClientConfig:
        """Return the same configuration without credentials, as for probes."""
        cleared: dict[str, Any] = {
            entry.name: entry.default for entry in dataclasses.fields(self) if "credential" in entry.metadata
        }
        return dataclasses.replace(self, **cleared)

    @classmethod
    def from_kubeconfig(
        cls,
        *paths: Path | str,
        context: str = "",
        **overrides: Any,
    ) -> ClientConfig:
        """The context `context` (or the current one) of kubeconfig files, merged in the order given.

        Without paths: those of $KUBECONFIG, else `~/.kube/config`. As with kubectl, the first file that has a cluster,
        a user, a context or a current context wins, relative paths are relative to the file they are in, and nothing
        secret is sent to a server without TLS.
        """
        from kapi.client.kubeconfig import Kubeconfig

        merged = Kubeconfig.load([Path(path) for path in paths] or default_paths(), must_exist=bool(paths))
        return merged.client_config(context, **overrides)

    @classmethod
    def in_cluster(cls, directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> ClientConfig:
        """The service account of the pod this program runs in."""
        environ = os.environ if environ is None else environ
        host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigError(
                "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; use a kubeconfig"
            )
        token, authority, namespace = (directory / name for name in ("token", "ca.crt", "namespace"))
        if not token.is_file():
            raise ConfigError(f"{token} is missing: the pod has no service account token mounted")
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            ca_file=authority if authority.is_file() else None,
            token_file=token,
            namespace=read_file(namespace).decode().strip() if namespace.is_file() else "default",
        )

    @classmethod
    def from_flags(cls, master: str = "", kubeconfig: Path | str = "", **overrides: Any) -> ClientConfig:
        """Return the config that the flags `--master` and `--kubeconfig` mean, as in client-go's BuildConfigFromFlags.

        With neither, the program runs in a pod and its service account is used; the environment is not asked for a
        kubeconfig. An address without a scheme is one without TLS.
        """
        if master and "://" not in master:
            master = f"http://{master}"
        if kubeconfig:
            return cls.from_kubeconfig(kubeconfig, **({"server": master} if master else {}), **overrides)
        return cls(master, **overrides) if master else dataclasses.replace(cls.in_cluster(), **overrides)

    @classmethod
    def load(
        cls, *, kubeconfig: Path | str | None = None, context: str = "", server: str = "", **overrides: Any
    ) -> ClientConfig:
        """The usual way: what is given explicitly, else $KUBECONFIG or `~/.kube/config`, else the pod's account."""
        if kubeconfig is not None or any(path.is_file() for path in default_paths()):
            if server:
                overrides["server"] = server
            paths = [] if kubeconfig is None else [kubeconfig]
            return cls.from_kubeconfig(*paths, context=context, **overrides)
        if context:
            raise ConfigError(f'context "{context}" does not exist: there is no kubeconfig')
        if server:
            return cls(server=server, **overrides)
        try:
            return dataclasses.replace(cls.in_cluster(), **overrides)
        except ConfigError:
            raise ConfigError("no cluster is configured: set KUBECONFIG, or give a kubeconfig or a server") from None


def default_paths() -> list[Path]:
    """Return the paths of kubeconfig files when none is named."""
    listed = os.environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]
    return [Path.home() / ".kube" / "config"]
