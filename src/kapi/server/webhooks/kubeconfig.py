"""The configuration files of webhooks that flags name: kubeconfigs, whose cluster is the webhook and whose user is us.

Token review, authorization and audit webhooks are configured this way in Kubernetes.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import invalid, not_found, required
from kapi.base.http import Endpoint
from kapi.server.configfile import ConfigFile, ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SHAPE: Mapping[str, Any] = {
    "preferences": {},
    "current-context": str,
    "clusters": [
        {
            "name": str,
            "cluster": {
                "server": str,
                "certificate-authority": str,
                "certificate-authority-data": str,
                "tls-server-name": str,
            },
        }
    ],
    "users": [
        {
            "name": str,
            "user": {
                "client-certificate": str,
                "client-certificate-data": str,
                "client-key": str,
                "client-key-data": str,
                "token": str,
                "tokenFile": str,
            },
        }
    ],
    "contexts": [{"name": str, "context": {"cluster": str, "user": str, "namespace": str}}],
}


def read_webhook_config(path: Path) -> Endpoint:
    """Read the kubeconfig of a webhook: of its current context, or of the only one it has.

    Raises:
        ConfigFileError: the file has mistakes, or names files that cannot be read.
    """
    file = ConfigFile(path, {("v1", "Config"): _SHAPE})
    where, context = _named(file, "contexts", file.obj.get("current-context") or "", "current-context")
    context = context.get("context") or {}
    place, cluster = _named(file, "clusters", context.get("cluster") or "", f"{where}.context.cluster")
    cluster, place = cluster.get("cluster") or {}, f"{place}.cluster"
    url = cluster.get("server") or ""
    if not url:
        file.refuse([required(f"{place}.server")])
    if not url.startswith("https://"):
        file.refuse([invalid(f"{place}.server", url, "must begin with https://")])
    certificate, token = b"", ""
    if context.get("user"):
        mine, user = _named(file, "users", context["user"], f"{where}.context.user")
        user, mine = user.get("user") or {}, f"{mine}.user"
        certificate = _data(file, mine, user, "client-certificate")
        key = _data(file, mine, user, "client-key")
        if bool(certificate) is not bool(key):
            file.refuse([required(f"{mine}.client-{'key' if certificate else 'certificate'}")])
        certificate = certificate + b"\n" + key if certificate else b""
        token = user.get("token") or _text(file, f"{mine}.tokenFile", user.get("tokenFile") or "")
    return Endpoint(
        url,
        _data(file, place, cluster, "certificate-authority"),
        server_name=cluster.get("tls-server-name") or "",
        certificate=certificate,
        token=token,
    )


def _named(file: ConfigFile, section: str, name: str, reference: str) -> tuple[str, dict[str, Any]]:
    """Return an entry of a section and its path; without a name the only one."""
    entries: list[dict[str, Any]] = file.obj.get(section) or []
    for index, entry in enumerate(entries):
        if entry.get("name", "") == name or (not name and len(entries) == 1):
            return f"{section}[{index}]", entry
    file.refuse([not_found(reference, name) if name else required(reference)])
    raise AssertionError("refuse raises")


def _data(file: ConfigFile, path: str, entry: Mapping[str, str], name: str) -> bytes:
    """Return what `NAME-data` holds, or the file that `NAME` names; empty for neither."""
    if encoded := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            file.refuse([invalid(f"{path}.{name}-data", "", "not base64")])
    return _bytes(file, f"{path}.{name}", entry.get(name) or "")


def _text(file: ConfigFile, path: str, name: str) -> str:
    return _bytes(file, path, name).decode(errors="replace").strip()


def _bytes(file: ConfigFile, path: str, name: str) -> bytes:
    if not name:
        return b""
    try:
        return (file.path.parent / name).read_bytes()
    except OSError as error:
        raise ConfigFileError(f"{file.path}: {path}: {name}: {error.strerror}") from None
