"""Find the definitions, decide whether anything is stale, and run the two generators.

The outputs are git-ignored, so a stamp next to them records what they were made from: the generators' own sources
and the bytes of the definitions. An editable install that finds the stamp unchanged costs milliseconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import pathlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "kubernetes-validate"
"""The distribution that carries the definitions; pyproject.toml pins its version."""

DEFINITIONS = pathlib.PurePosixPath("kubernetes-json-schema/v1.36.0-local/_definitions.json")
"""Where the definitions of the compatibility target are inside that package."""

CLASSES = pathlib.PurePosixPath("src/kapi/api/builtin")
SCHEMAS = pathlib.PurePosixPath("src/kapi/schema/builtin/definitions.bin")
STAMP = CLASSES / ".stamp"


class MissingDefinitions(Exception):
    """The package with the definitions is not installed, or has no such version of them."""


def generate(root: pathlib.Path, *, force: bool = False) -> bool:
    """Bring the outputs below `root` up to date; return True if they had to be written.

    The stamp is removed first and written last, so an interrupted run is seen as stale and never as done.
    """
    source = definitions_source()
    stamp, wanted = root / STAMP, fingerprint(root / "generate", source)
    if not force and is_current(root, wanted):
        return False
    from generate.schemas import generate_schemas
    from generate.types import generate_types

    stamp.unlink(missing_ok=True)
    definitions = read_definitions(source)
    generate_schemas(definitions, root / SCHEMAS)
    generate_types(definitions, root / CLASSES)
    stamp.write_text(wanted + "\n", encoding="ascii")
    return True


def definitions_source() -> bytes:
    """Return the definitions inside the package, which is not imported: its imports are not needed.

    The package may be installed, or be a wheel on the import path; loaders of both kinds read data by path.
    """
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    read: Callable[[str], bytes] = getattr(spec and spec.loader, "get_data", _no_data)
    for location in (spec and spec.submodule_search_locations) or ():
        with contextlib.suppress(OSError):
            return read(str(pathlib.Path(location) / DEFINITIONS))
    problem = "is not installed" if spec is None else f"has no {DEFINITIONS}"
    raise MissingDefinitions(
        f"{PACKAGE} {problem}, and the schemas and classes of the built-in kinds are generated from it. "
        f"Install the version that [build-system] in pyproject.toml names, for instance with "
        f"`pip install -e '.[dev]'` or `make venv`, and try again."
    )


def _no_data(path: str) -> bytes:
    """Stand in for a loader that cannot read data."""
    raise FileNotFoundError(path)


def read_definitions(source: bytes) -> dict[str, Any]:
    """The definitions by their full name, such as `io.k8s.api.core.v1.Pod`."""
    definitions: dict[str, Any] = msgspec.json.decode(source)["$defs"]
    return definitions


def fingerprint(generators: pathlib.Path, source: bytes) -> str:
    """One hash over everything the outputs depend on."""
    digest = hashlib.sha256(source)
    for path in sorted(generators.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_current(root: pathlib.Path, wanted: str) -> bool:
    """Return True if both outputs exist and were made from the same inputs."""
    stamp = root / STAMP
    outputs = (root / SCHEMAS, root / CLASSES / "__init__.py")
    return all(path.is_file() for path in (stamp, *outputs)) and stamp.read_text(encoding="ascii").strip() == wanted
