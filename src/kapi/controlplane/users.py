"""Users with client certificates of this server's own CA."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kapi.base.tls import Authority, KeyPair
from kapi.codec import yaml
from kapi.codec.errors import DecodeError
from kapi.controlplane.bootstrap import write_user_kubeconfig
from kapi.controlplane.options import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAME = 64
"""The longest common name and organization that X.509 allows."""


def add_user(data_dir: Path, name: str, groups: Sequence[str], output: Path, *, pki_dir: Path | None = None) -> None:
    """Issue a client certificate that names a user and groups, and write it as a kubeconfig.

    The server need not run: it accepts what its CA has issued, which is in `pki_dir` (if None, in `data_dir`). Nothing
    is stored of the user, and a certificate cannot be revoked: what the user may do is decided by role bindings.
    """
    for what, text in (("the name", name), *(("a group", group) for group in groups)):
        if not text or len(text) > MAX_NAME:
            raise OptionError(f"{what} {text!r}: expected 1 to {MAX_NAME} characters")
    if output.exists():
        raise OptionError(f"{output} exists already; choose another file: --output FILE")
    folder_of_ca = pki_dir or data_dir / "pki"
    ca = KeyPair(folder_of_ca / "ca.crt", folder_of_ca / "ca.key")
    if not ca.exists():
        if pki_dir is not None:
            raise OptionError(f"{pki_dir} has no ca.crt and ca.key; choose another folder: --pki-dir DIR")
        raise OptionError(
            f"{data_dir} is not the data folder of a server; choose another: --data-dir DIR, and --pki-dir DIR if the"
            " server was started with it"
        )
    cluster = _cluster(data_dir / "admin.kubeconfig")
    authority = Authority.ensure(ca, "kapi")
    with tempfile.TemporaryDirectory() as folder:
        files = KeyPair(Path(folder) / "user.crt", Path(folder) / "user.key")
        authority.ensure_client(files, name, groups)
        write_user_kubeconfig(output, cluster, name, files)


def _cluster(kubeconfig: Path) -> dict[str, str]:
    """Return the server and its CA, as the admin's kubeconfig has them."""
    try:
        config = yaml.decode(kubeconfig.read_bytes())
        cluster: dict[str, str] = config["clusters"][0]["cluster"]
    except (OSError, DecodeError, LookupError, TypeError):
        raise OptionError(f"{kubeconfig} cannot be read; start the server once: kapi up") from None
    return cluster
