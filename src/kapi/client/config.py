"""Where the server is, how it proves who it is, and how we prove who we are.

A `ClientConfig` is a plain value; everything else here makes one: from kubeconfig files as kubectl reads them, from the
files of the service account mounted into a pod, or from an explicit address. Nothing is sent from here, and files with
secrets are read where they are used, in `credentials`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi import __version__
from kapi.client.errors import ConfigError
from kapi.codec import yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USER_AGENT: Final = f"kapi/{__version__} ({platform.system().lower()}/{platform.machine()})"

_CREDENTIAL: Final = {"credential": True}
_SECRET: Final = {"credential": True, "secret": True}


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach one API server as one user.

    Data wins over a file of the same thing, as in a kubeconfig. Time-outs are in seconds. Printing a config never shows
    a secret, and `anonymous` keeps nothing that says who we are.
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
    namespace: str = "default"
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = ""
    timeout: float = 30.0
    connect_timeout: float = 10.0
    user_agent: str = USER_AGENT

    def __post_init__(self) -> None:
        if not self.server.startswith(("https://", "http://")):
            raise ConfigError(f"the server's address {self.server!r} must begin with https:// or http://")
        if self.insecure and (self.ca_file or self.ca_data):
            raise ConfigError("an authority and insecure-skip-tls-verify contradict each other; give one of them")

    def __repr__(self) -> str:
        shown = []
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if value != entry.default:
                text = "<hidden>" if entry.metadata.get("secret") else repr(value)
                shown.append(f"{entry.name}={text if len(text) < 200 else text[:200] + '...'}")
        return f"ClientConfig({', '.join(shown)})"

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.server.startswith("https://")

    @property
    def has_credentials(self) -> bool:
        """Whether anything here says who we are."""
        return self != self.anonymous()

    def anonymous(self) -> ClientConfig:
        """The same server, as nobody: for probes, and for handing to code that must not act as us."""
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
        that says who we are goes to a server without TLS.
        """
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
            namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        )

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
    """Where kubeconfig files are looked for when none is named."""
    listed = os.environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]
    return [Path.home() / ".kube" / "config"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named cluster, user or context, and the folder its relative paths start from."""

    body: Mapping[str, Any]
    folder: Path
    label: str

    def text(self, key: str) -> str:
        value = self.body.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.label}: {key} must be a string")
        return value

    def flag(self, key: str) -> bool:
        value = self.body.get(key) or False
        if not isinstance(value, bool):
            raise ConfigError(f"{self.label}: {key} must be true or false")
        return value

    def path(self, key: str) -> Path | None:
        text = self.text(key)
        return self.folder / text if text else None

    def data(self, key: str) -> bytes:
        try:
            return base64.b64decode(self.text(key), validate=True)
        except binascii.Error:
            raise ConfigError(f"{self.label}: {key} is not base64") from None

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.body.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{self.label}: {key} must be a list of strings")
        return tuple(value)


class Kubeconfig:
    """Kubeconfig files, merged: the first that says something is believed."""

    def __init__(self) -> None:
        self.current_context = ""
        self._entries: dict[str, dict[str, _Entry]] = {"cluster": {}, "user": {}, "context": {}}

    @classmethod
    def load(cls, paths: Iterable[Path], *, must_exist: bool = False) -> Kubeconfig:
        """Read and merge files; one that is missing is skipped unless `must_exist`."""
        merged = cls()
        for path in paths:
            if must_exist or path.exists():
                merged._add(path)
        return merged

    def _add(self, path: Path) -> None:
        try:
            document = yaml.decode(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from None
        except DecodeError as error:
            raise ConfigError(f"{path}: {error}") from None
        if document is None:
            return
        if not isinstance(document, dict):
            raise ConfigError(f"{path}: not a kubeconfig; expected a mapping with clusters, users and contexts")
        self.current_context = self.current_context or str(document.get("current-context") or "")
        for kind, entries in self._entries.items():
            for name, body in _named(document.get(f"{kind}s") or [], kind, path):
                entries.setdefault(name, _Entry(body, path.parent, f'{path}: {kind} "{name}"'))

    def _entry(self, kind: str, name: str) -> _Entry:
        try:
            return self._entries[kind][name]
        except KeyError:
            raise ConfigError(f'{kind} "{name}" does not exist') from None

    def client_config(self, context: str = "", **overrides: Any) -> ClientConfig:
        """The config of one context; `overrides` are fields that are known better than the files know them."""
        from kapi.client.credentials import refuse_plugins

        name = context or self.current_context
        fields: dict[str, Any] = {}
        user: _Entry | None = None
        if name:
            chosen = self._entry("context", name)
            fields["namespace"] = chosen.text("namespace") or "default"
            fields |= _server_fields(self._entry("cluster", chosen.text("cluster")))
            user = self._entry("user", chosen.text("user")) if chosen.text("user") else None
        elif "server" not in overrides:
            raise ConfigError("the kubeconfig has no current-context; set one, or name a context")
        if "server" in overrides:
            # The name in the certificate belongs to the server that is not asked any more.
            fields.pop("tls_server_name", None)
        if overrides.get("ca_file") or overrides.get("ca_data") or overrides.get("insecure"):
            fields = {key: value for key, value in fields.items() if key not in ("ca_file", "ca_data", "insecure")}
        server = overrides.get("server", fields.get("server", ""))
        if user is not None and server.startswith("https://"):
            refuse_plugins(user.body, user.label)
            fields |= _user_fields(user, overrides)
        return ClientConfig(**{**fields, **overrides})


def _named(entries: Any, kind: str, path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The entries of one of a kubeconfig's lists: `{name: ..., cluster: {...}}` and its like."""
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: {kind}s must be a list")
    for index, entry in enumerate(entries):
        body = (entry.get(kind) or {}) if isinstance(entry, dict) else None
        if not isinstance(body, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: {kind}s[{index}] must have a name and a {kind}")
        yield entry["name"], body


def _server_fields(cluster: _Entry) -> dict[str, Any]:
    server = cluster.text("server")
    if not server:
        raise ConfigError(f"{cluster.label}: server is not set")
    return {
        "server": server,
        "ca_file": cluster.path("certificate-authority"),
        "ca_data": cluster.data("certificate-authority-data"),
        "insecure": cluster.flag("insecure-skip-tls-verify"),
        "tls_server_name": cluster.text("tls-server-name"),
        "proxy": cluster.text("proxy-url"),
    }


def _user_fields(user: _Entry, overrides: Mapping[str, Any]) -> dict[str, Any]:
    readers: dict[str, tuple[Callable[[str], Any], str]] = {
        "cert_file": (user.path, "client-certificate"),
        "cert_data": (user.data, "client-certificate-data"),
        "key_file": (user.path, "client-key"),
        "key_data": (user.data, "client-key-data"),
        "token": (user.text, "token"),
        "token_file": (user.path, "tokenFile"),
        "username": (user.text, "username"),
        "password": (user.text, "password"),
        "impersonate_user": (user.text, "as"),
        "impersonate_uid": (user.text, "as-uid"),
        "impersonate_groups": (user.texts, "as-groups"),
    }
    fields = {name: read(key) for name, (read, key) in readers.items()}
    fields["impersonate_extra"] = _extra(user)
    # A credential given explicitly replaces what the file has of its sort, in whatever form.
    for sort in (("token", "token_file"), ("cert_file", "cert_data"), ("key_file", "key_data")):
        if any(overrides.get(name) for name in sort):
            fields = {name: value for name, value in fields.items() if name not in sort}
    return fields


def _extra(user: _Entry) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra = user.body.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise ConfigError(f"{user.label}: as-user-extra must be a mapping")
    inner = _Entry(extra, user.folder, f"{user.label}: as-user-extra")
    return tuple((str(key), inner.texts(key)) for key in extra)
