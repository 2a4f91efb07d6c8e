"""Turning what a config says about us into what a connection and a request carry: a TLS context and headers.

Secrets are read here and nowhere else. Files are looked at before each request and read again when they have changed,
because tokens and certificates that are mounted into pods are renewed by writing the files anew. Connections that are
open stay as they are; new ones trust the authority, and show the certificate, that the files have now.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from kapi.client.auth.execplugin import ClusterInfo, ExecPlugin
from kapi.client.errors import ConfigError
from kapi.client.files import check_file, read_file
from kapi.client.transport.proxy import proxy_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.client.auth.execplugin import PluginCredentials
    from kapi.client.config import ClientConfig

_log = logging.getLogger("kapi.client")


class Presented(NamedTuple):
    """The credentials of one request: headers, and the TLS context of its connection. Never print it."""

    headers: tuple[tuple[str, str], ...]
    tls: ssl.SSLContext | None
    given: PluginCredentials | None = None

    def __repr__(self) -> str:
        return "Presented(<hidden>)"


class Credentials:
    """The credentials of a config, as each request presents them.

    A token, password or certificate in the config wins over a plugin, as with kubectl.
    """

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None) -> None:
        if config.has_credentials and not config.is_tls:
            raise ConfigError(f"{config.server} is not https: credentials are not sent without TLS")
        self._config = config
        self._impersonation = tuple(_impersonation(config))
        self._token_file = _TokenFile(config.token_file) if config.token_file else None
        self._tls = _TLS(config)
        self._plugin: ExecPlugin | None = None
        if config.exec is not None and not _has_own(config):
            self._plugin = ExecPlugin(config.exec, lambda: _cluster_info(config), clock=clock)

    async def present(self) -> Presented:
        """Return the credentials of a request made now; may run an exec plugin."""
        given = await self._plugin.credentials() if self._plugin else None
        pair = (given.certificate, given.key) if given and given.certificate else None
        headers = (*self._authorization(given.token if given else ""), *self._impersonation)
        return Presented(headers, self._tls.context(pair), given)

    async def renew(self, refused: Presented) -> bool:
        """Renew credentials that the server did not accept; returns True if there are others to present now."""
        if self._plugin is not None and refused.given is not None:
            self._plugin.reject(refused.given)
        if self._token_file is not None:
            self._token_file.forget()
        return await self.present() != refused

    async def close(self) -> None:
        """Stop a plugin that is running."""
        if self._plugin is not None:
            await self._plugin.close()

    def _authorization(self, given: str) -> Iterator[tuple[str, str]]:
        config = self._config
        token = (self._token_file.token(config.token) if self._token_file else config.token) or given
        if token:
            yield "Authorization", f"Bearer {token}"
        elif config.username or config.password:
            pair = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
            yield "Authorization", f"Basic {pair}"


class _TokenFile:
    """A token that is renewed by writing its file anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: object = None
        self._token = ""

    def forget(self) -> None:
        """Read the file next time, changed or not."""
        self._state = None

    def token(self, otherwise: str) -> str:
        """Return the token in the file, or the one read last; `otherwise` if it could never be read."""
        state = _state_of(self._path)
        if state is None or state != self._state:
            try:
                self._token = read_file(self._path).decode().strip() or self._token
                self._state = state
            except (OSError, ValueError) as error:
                # The file may be gone for the moment it is replaced; the token we have is likely still good.
                if not self._token and not otherwise:
                    raise ConfigError(f"token file {self._path}: {_why(error)}") from None
        if not self._token and not otherwise:
            raise ConfigError(f"token file {self._path} is empty")
        return self._token or otherwise


class _TLS:
    """The TLS context of a config, made anew when its files change or a plugin gives another certificate."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        sources = (
            (config.ca_file, config.ca_data),
            (config.cert_file, config.cert_data),
            (config.key_file, config.key_data),
        )
        self._files = tuple(path for path, data in sources if path is not None and not data)
        self._pair: tuple[bytes, bytes] | None = None
        self._states = self._look()
        self._context = tls_context(config)

    def context(self, pair: tuple[bytes, bytes] | None) -> ssl.SSLContext | None:
        """The context for a connection made now; `pair` is a certificate with its key that a plugin gave."""
        states = self._look()
        if states != self._states or pair != self._pair:
            try:
                self._context = tls_context(self._config, pair)
            except ConfigError as error:
                if pair != self._pair:
                    raise
                # A certificate and its key cannot be replaced in one step; what we have is likely still good.
                _log.warning("keeping the certificates that were read before: %s", error)
                return self._context
            self._states, self._pair = states, pair
        return self._context

    def _look(self) -> tuple[object, ...]:
        return tuple(map(_state_of, self._files))


def _state_of(path: Path) -> object:
    """Return a value that changes when a file is written or replaced; None when there is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def _has_own(config: ClientConfig) -> bool:
    """Return True if a config has credentials other than those of a plugin."""
    certificate = config.cert_file or config.cert_data
    return bool(config.token or config.token_file or config.username or config.password or certificate)


def _cluster_info(config: ClientConfig) -> ClusterInfo:
    try:
        ca_data = config.ca_data or (read_file(config.ca_file) if config.ca_file else b"")
    except OSError as error:
        raise ConfigError(f"{config.ca_file} cannot be used as an authority: {_why(error)}") from None
    return ClusterInfo(
        server=config.server,
        tls_server_name=config.tls_server_name,
        insecure=config.insecure,
        ca_data=ca_data,
        proxy=proxy_for(config),
    )


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


def tls_context(config: ClientConfig, pair: tuple[bytes, bytes] | None = None) -> ssl.SSLContext | None:
    """The TLS context of a config; None for a server without TLS.

    Without an authority of its own a config trusts the system's. Names and certificates are always checked unless the
    config says `insecure` in so many words. `pair` is a certificate with its key for a config that has none.
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
    if pair is not None:
        _show_certificate(context, *pair, "the certificate of the exec plugin")
    else:
        where = str(config.cert_file) if config.cert_file and not config.cert_data else "client-certificate-data"
        _show_certificate(context, config.cert_data or config.cert_file, config.key_data or config.key_file, where)
    return context


def _trust(context: ssl.SSLContext, config: ClientConfig) -> None:
    try:
        if config.ca_data:
            context.load_verify_locations(cadata=config.ca_data.decode("ascii", "replace"))
        elif config.ca_file:
            check_file(config.ca_file)
            context.load_verify_locations(cafile=config.ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (OSError, ValueError) as error:
        where = "certificate-authority-data" if config.ca_data else str(config.ca_file)
        raise ConfigError(f"{where} cannot be used as an authority: {_why(error)}") from None


def _show_certificate(
    context: ssl.SSLContext, certificate: bytes | Path | None, key: bytes | Path | None, where: str
) -> None:
    if not certificate and not key:
        return
    if not certificate or not key:
        raise ConfigError("a client certificate needs both the certificate and its key")
    try:
        with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
            # Without a password of ours OpenSSL would stop and ask the terminal for one.
            context.load_cert_chain(certificate_file, key_file, password="")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where} cannot be used as a client certificate: {_why(error)}") from None


@contextlib.contextmanager
def _as_file(source: bytes | Path) -> Iterator[str]:
    """A path for OpenSSL, which reads certificates from files only; data is there just as long as it takes."""
    if not isinstance(source, bytes):
        check_file(source)
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
