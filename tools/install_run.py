"""Install Kapi for `make run` into the virtual environment whose Python runs this: what running needs, and no more.

`pip install --editable .` would do the same, and would unpack 108 MB of schemas into an isolated build environment only
to read one file of them. Here the build backend is installed as well, and that file is read from the wheel.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = "kubernetes-validate"
"""The build requirement that is read as data and not installed."""
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def main() -> None:
    """Install the build backend and then Kapi with the extra `server`; pip prints its progress."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requires = project["build-system"]["requires"]
    # Compiling what will never be imported takes seconds; Python compiles the rest at its first import.
    environment = {**os.environ, "PIP_NO_COMPILE": "1"}
    backend = [requirement for requirement in requires if not requirement.startswith(DATA)]
    with tempfile.TemporaryDirectory() as folder:
        _pip(environment, "download", "--no-deps", "--dest", folder, *(set(requires) - set(backend)))
        _pip(environment, "install", "editables", *backend)
        wheels = [str(path) for path in pathlib.Path(folder).glob("*.whl")]
        environment["PYTHONPATH"] = os.pathsep.join(wheels)
        _pip(environment, "install", "--no-build-isolation", "--editable", f"{ROOT}[server]")


def _pip(environment: dict[str, str], *arguments: str) -> None:
    finished = subprocess.run([*PIP, *arguments], env=environment, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


if __name__ == "__main__":
    main()
