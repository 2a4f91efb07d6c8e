"""The certificate of a webhook server, and the authority that API servers must trust.

`SelfSigned` is its own authority; `Mounted` reads a directory that another program writes, such as a mounted Secret
that cert-manager renews. Several processes behind one Service must share one authority: give them the same directory,
or mount the same Secret.
"""

from __future__ import annotations

import base64
import pathlib
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, Protocol

from kapi.base.tls import Authority, KeyPair, local_names, service_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.base.clock import Clock


class Certificates(Protocol):
    """The server's certificate and its authority."""

    @property
    def files(self) -> KeyPair:
        """The certificate and the key of the server."""
        ...

    def ensure(self) -> None:
        """Make sure that there are good ones, renewed in time. Called at the start and then every minute or so."""
        ...

    def ca_bundle(self) -> str:
        """The authority's certificate, as a `caBundle` has it: PEM in base64."""
        ...


class SelfSigned:
    """An authority of our own and a certificate for `names`, host names and addresses.

    They are kept in `directory`, or, without one, in a private temporary directory that is deleted with this object; a
    new authority is then made at each start and has to be injected again. The certificate is good for a year and
    renewed 30 days before its end; the authority for ten years, and keeps its key when it is renewed.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        *,
        directory: pathlib.Path | str | None = None,
        clock: Clock | None = None,
    ) -> None:
        _require_cryptography()
        self._names = tuple(names) or local_names()
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="webhook-") if directory is None else directory)
        if directory is None:
            weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self._clock = clock
        self.files = self._pair("tls")

    @classmethod
    def for_service(
        cls, service: str, namespace: str, *, domain: str = "cluster.local", directory: pathlib.Path | str | None = None
    ) -> SelfSigned:
        """For a server that API servers reach as a Service."""
        return cls(service_names(service, namespace, domain)[1:], directory=directory)

    def ensure(self) -> None:
        """Issue or renew what is missing, does not fit, or is near its end."""
        authority = Authority.ensure(self._pair("ca"), "webhook-ca", clock=self._clock)
        authority.ensure_server(self.files, self._names)

    def ca_bundle(self) -> str:
        """The authority's certificate; made if there is none yet."""
        self.ensure()
        return _bundle(self._pair("ca").certificate)

    def _pair(self, stem: str) -> KeyPair:
        return KeyPair(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")


class Mounted:
    """`tls.crt`, `tls.key` and `ca.crt` in a directory, as of a mounted Secret of type kubernetes.io/tls."""

    def __init__(self, directory: pathlib.Path | str) -> None:
        self._directory = pathlib.Path(directory)
        self.files = KeyPair(self._directory / "tls.crt", self._directory / "tls.key")

    def ensure(self) -> None:
        """Do nothing: the program that writes the files renews them."""

    def ca_bundle(self) -> str:
        """Return the contents of `ca.crt`."""
        return _bundle(self._directory / "ca.crt")


def _bundle(path: pathlib.Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise RuntimeError(
            "making certificates needs the cryptography package: pip install cryptography, or use Mounted certificates"
        ) from None
