"""The options of a control plane that are about authentication, under the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    """The credentials a server accepts, and the files they are read from."""

    client_ca_file: Path | None = None
    """Authorities of client certificates. The server's own, which issued the admin's certificate, is one always."""
