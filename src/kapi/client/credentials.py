"""Turning what a config says about us into what a connection and a request carry: a TLS context and headers.

Secrets are read here and nowhere else. Files are read again when they are a while old, because tokens that are mounted
into pods are renewed by writing the file anew. Credential plugins are refused with a clear text: running programs that
a configuration file names is a decision of its own.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kapi.base.clock import SystemClock
from kapi.client.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.client.config import ClientConfig

TOKEN_SECONDS: Final = 60.0
"""How long a token file is believed before it is read again."""


def refuse_plugins(user: Mapping[str, Any], label: str) -> None:
    """Say so when a user of a kubeconfig can only be had from a plugin."""
    for key, name in (("exec", "exec credential plugins"), ("auth-provider", "auth-provider plugins")):
        if user.get(key):
            raise ConfigError(f"{label}: {name} are not supported yet; use a token or a client certificate")


class Credentials:
    """What each request of one config carries to say who sends it."""

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None) -> None:
        if config.has_credentials and not config.is_tls:
            raise ConfigError(f"{config.server} is not https: credentials are not sent where anybody can read them")
        self._config = config
        self._clock = clock or SystemClock()
        self._fixed = list(_impersonation(config))
        self._token = ""
        self._token_read: float | None = None

    def headers(self) -> list[tuple[str, str]]:
        """Headers for a request made now."""
        return [*self._authorization(), *self._fixed]

    def _authorization(self) -> Iterator[tuple[str, str]]:
        config = self._config
        token = config.token or (self._file_token(config.token_file) if config.token_file else "")
        if token:
            yield "Authorization", f"Bearer {token}"
        elif config.username:
            pair = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
            yield "Authorization", f"Basic {pair}"

    def _file_token(self, path: Path) -> str:
        now = self._clock.monotonic()
        if self._token_read is None or now - self._token_read > TOKEN_SECONDS:
            try:
                self._token = path.read_text().strip()
            except OSError as error:
                # The file may be gone for the moment it is replaced; the token we have is likely still good.
                if not self._token:
                    raise ConfigError(f"token file {path}: {error.strerror or error}") from None
            self._token_read = now
        return self._token


def _impersonation(config: ClientConfig) -> Iterator[tuple[str, str]]:
    if not config.impersonate_user:
        if config.impersonate_uid or config.impersonate_groups or config.impersonate_extra:
            raise ConfigError("groups, a UID or extras cannot be impersonated without a user; name one")
        return
    yield "Impersonate-User", config.impersonate_user
    if config.impersonate_uid:
        yield "Impersonate-Uid", config.impersonate_uid
    for group in config.impersonate_groups:
        yield "Impersonate-Group", group
    for key, values in config.impersonate_extra:
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe='')}", value


def tls_context(config: ClientConfig) -> ssl.SSLContext | None:
    """The TLS context of a config; None for a server without TLS.

    Without an authority of its own a config trusts the system's. Names and certificates are always checked unless the
    config says `insecure` in so many words.
    """
    if not config.is_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, config)
    _show_certificate(context, config)
    return context


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    try:
        if config.ca_data:
            context.load_verify_locations(cadata=config.ca_data.decode("ascii", "replace"))
        elif config.ca_file:
            context.load_verify_locations(cafile=config.ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        where = "certificate-authority-data" if config.ca_data else str(config.ca_file)
        raise ConfigError(f"{where} cannot be used as an authority: {_why(error)}") from None


def _show_certificate(context: ssl.SSLContext, config: ClientConfig) -> None:
    certificate, key = config.cert_data or config.cert_file, config.key_data or config.key_file
    if not certificate and not key:
        return
    if not certificate or not key:
        raise ConfigError("a client certificate needs both the certificate and its key")
    try:
        with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
            # Without a password of ours OpenSSL would stop and ask the terminal for one.
            context.load_cert_chain(certificate_file, key_file, password="")
    except (OSError, ValueError) as error:
        where = config.cert_file if not config.cert_data and config.cert_file else "client-certificate-data"
        raise ConfigError(f"{where} cannot be used as a client certificate: {_why(error)}") from None


@contextlib.contextmanager
def _as_file(source: bytes | Path) -> Iterator[str]:
    """A path for OpenSSL, which reads certificates from files only; data is there just as long as it takes."""
    if not isinstance(source, bytes):
        yield str(source)
        return
    descriptor, name = tempfile.mkstemp()  # readable by its owner only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(source)
        yield name
    finally:
        os.unlink(name)  # noqa: PTH108 - a name, not a path of ours


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
