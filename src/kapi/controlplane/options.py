"""The options of a control plane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_DATA_DIR = Path(".kapi")
DEFAULT_BIND = "127.0.0.1:6443"
DRAIN_SECONDS = 10.0


class OptionError(ValueError):
    """An option that cannot be used; the message says what would be valid."""


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
    """How long Events are kept after they were last written."""

    @property
    def kubeconfig_path(self) -> Path:
        """Where the admin's kubeconfig is written."""
        return self.kubeconfig or self.data_dir / "admin.kubeconfig"


def parse_bind(text: str) -> tuple[str, int]:
    """Read HOST:PORT, with [brackets] around an IPv6 address; port 0 picks a free one."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not number or int(port) > 65535:
        raise OptionError(f"--bind {text!r}: expected HOST:PORT with a port from 0 to 65535, such as {DEFAULT_BIND}")
    return host, int(port)


def check_storage(text: str) -> str:
    """Read the name of a storage backend."""
    if text in ("sqlite", "memory"):
        return text
    if text.startswith("etcd://"):
        raise OptionError("--storage etcd://…: etcd is not supported by this version; use sqlite or memory")
    raise OptionError(f"--storage {text!r}: expected sqlite or memory")
