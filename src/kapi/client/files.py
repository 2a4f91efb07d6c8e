"""Reading the files of a configuration: kubeconfigs, tokens, certificates, with a bound on their size.

A path may name anything, a device without end as well, and the bound is far above what these files are.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES: Final = 16 * 1024 * 1024


def read_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read, or is larger than `MAX_FILE_BYTES`.
    """
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _too_large(path)
    return content


def check_file(path: Path) -> None:
    """Check a file that OpenSSL reads by itself, and without a bound.

    Raises:
        OSError: there is none, or it is larger than `MAX_FILE_BYTES`, as devices are.
    """
    state = path.stat()
    if state.st_size > MAX_FILE_BYTES or stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
        raise _too_large(path)


def _too_large(path: Path) -> OSError:
    return OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)} (more than {MAX_FILE_BYTES} bytes)", str(path))
