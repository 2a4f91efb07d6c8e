"""Kubeconfig files as kubectl reads them: clusters, users and contexts, merged from several files.

What comes out is a `ClientConfig`. Files are read here; the files with secrets that they name are not.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kapi.client.auth.execplugin import CLUSTER_EXTENSION, ExecConfig
from kapi.client.config import ClientConfig
from kapi.client.errors import ConfigError
from kapi.client.files import read_file
from kapi.codec import yaml
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path


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
    """Merged kubeconfig files: for each name the first file that has it wins."""

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
            document = yaml.decode(read_file(path))
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
        name = context or self.current_context
        fields: dict[str, Any] = {}
        user: _Entry | None = None
        cluster: _Entry | None = None
        if name:
            chosen = self._entry("context", name)
            fields["namespace"] = chosen.text("namespace") or "default"
            cluster = self._entry("cluster", chosen.text("cluster"))
            fields |= _server_fields(cluster)
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
            fields |= _user_fields(user, overrides)
            fields["exec"] = _plugin(user, cluster)
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


def _plugin(user: _Entry, cluster: _Entry | None) -> ExecConfig | None:
    if user.body.get("auth-provider"):
        raise ConfigError(f"{user.label}: auth-provider plugins are not supported; use exec, a token or a certificate")
    body = user.body.get("exec")
    if not body:
        return None
    label = f"{user.label}: exec"
    if not isinstance(body, dict):
        raise ConfigError(f"{label} must be a mapping")
    entry = _Entry(body, user.folder, label)
    command = entry.text("command")
    api_version = entry.text("apiVersion")
    mode = entry.text("interactiveMode") or ("" if api_version.endswith("/v1") else "IfAvailable")
    if not mode:
        raise ConfigError(f"{label}: interactiveMode must be given with {api_version}: Never, IfAvailable or Always")
    try:
        return ExecConfig(
            # A bare name is looked for where programs are; only one with a folder in it is a path.
            command=str(user.folder / command) if "/" in command else command,
            args=entry.texts("args"),
            env=_environment(entry),
            api_version=api_version,
            install_hint=_printable(entry.text("installHint")),
            provide_cluster_info=entry.flag("provideClusterInfo"),
            interactive_mode=mode,
            cluster_config=_extension(cluster),
        )
    except ConfigError as error:
        raise ConfigError(f"{user.label}: {error}") from None


def _environment(plugin: _Entry) -> tuple[tuple[str, str], ...]:
    pairs = plugin.body.get("env") or []
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise ConfigError("env must be a list of names and values")
    named = [_Entry(pair, plugin.folder, f"{plugin.label}: env[{index}]") for index, pair in enumerate(pairs)]
    return tuple((pair.text("name"), pair.text("value")) for pair in named if pair.text("name"))


def _extension(cluster: _Entry | None) -> Any:
    """Return the extension of a cluster's entry that is meant for exec plugins, if any."""
    extensions = cluster.body.get("extensions") if cluster is not None else None
    for entry in extensions if isinstance(extensions, list) else []:
        if isinstance(entry, dict) and entry.get("name") == CLUSTER_EXTENSION:
            return entry.get("extension")
    return None


def _printable(text: str) -> str:
    """A hint from a file on its way to a terminal: control characters could do more there than be read."""
    return "".join(character for character in text if character.isprintable() or character in "\n\t")


def _extra(user: _Entry) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra = user.body.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise ConfigError(f"{user.label}: as-user-extra must be a mapping")
    inner = _Entry(extra, user.folder, f"{user.label}: as-user-extra")
    return tuple((str(key), inner.texts(key)) for key in extra)
