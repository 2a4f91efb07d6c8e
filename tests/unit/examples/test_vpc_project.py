"""The project `examples/vpc`: the commands that it was begun with, its own tests, and its manifests."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "vpc"
KAPI = [sys.executable, "-m", "kapi"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
NAMESPACES = ["unshare", "--net", "--mount"]


def run(command, folder, **environment):
    """Run a command in a folder; it must succeed. Returns what it printed."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_commands_of_the_readme_write_the_files_that_the_example_has(tmp_path):
    commands = [
        line.removeprefix("$ kapi ").split()
        for line in (EXAMPLE / "README.md").read_text().splitlines()
        if line.startswith(("$ kapi init", "$ kapi create api --group network"))
    ]
    assert len(commands) == 2
    for arguments in commands:
        run([*KAPI, *arguments], tmp_path)
    written = {path.relative_to(tmp_path) for path in (tmp_path / "vpc").rglob("*.py")}
    assert pathlib.Path("vpc/api/vpc_v1.py") in written
    assert [path for path in written if not (EXAMPLE / path).exists()] == []


@pytest.mark.slow
def test_the_tests_of_the_project_pass_and_its_manifests_are_current():
    assert " passed" in run(PYTEST, EXAMPLE)
    run([*KAPI, "generate", "manifests", "--check"], EXAMPLE)


def _why_not():
    """Return why there can be no namespaces here, or nothing."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "unshare and nsenter are not installed"
    script = "mount -t tmpfs none /run && exec " + f"{sys.executable} -c 'import pyroute2'"
    done = subprocess.run([*NAMESPACES, "sh", "-c", script], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no namespaces of our own here: {done.stderr.strip()[-200:]}"


@pytest.mark.slow
def test_the_kernel_has_the_networks():
    if reason := _why_not():
        pytest.skip(reason)
    assert "3 passed" in run(["tests/linux", *PYTEST, "tests/integration/test_linux.py"], EXAMPLE)
