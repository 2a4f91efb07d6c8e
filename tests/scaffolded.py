"""Runs the commands of scaffolded projects with this Python, and without what would install packages."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = "import sys; from kapi.cli.main import run; sys.exit(any(run(line.split()) for line in sys.argv[1:]))"
PLUGINS = "-p kapi.testing.pytest_plugin -p pytest_asyncio.plugin -p no:cacheprovider"


def run(folder, *command, **variables):
    """Return the exit status and the output of a program."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KAPI", "COV"))}
    # Where Kapi is installed by an older setup, pytest does not find its plugin by itself.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": PLUGINS, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env={**environ, **plugins, **variables}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def kapi(folder, *lines):
    """Run commands of kapi, all in one process; each must succeed."""
    status, output = run(folder, sys.executable, "-c", PROGRAM, *lines)
    assert status == 0, output


def make(folder, *targets, **variables):
    """Run make with the environment of this Python in the place of the one that the project would create."""
    venv = Path(sys.prefix)
    return run(folder, "make", "-o", f"{venv}/.installed", f"VENV={venv}", *targets, **variables)
