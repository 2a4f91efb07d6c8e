"""The tutorials run as they are printed, from an empty folder: typed command by command, and compared with what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from page_commands import Shell
from peers import PEERS

# Many processes are started one after the other: the limit is for a machine that does other things, too.
pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]
KUBECTL = PEERS / "bin" / "kubectl"
ROOT = Path(__file__).resolve().parents[2]
KAPI = f'exec {sys.executable} -m kapi "$@"'


@pytest.fixture
def shell(tmp_path):
    """A shell in an empty folder, with `python` and `kapi` of this environment."""
    for name in ("bin", "work"):
        (tmp_path / name).mkdir()
    add_program(tmp_path, "python", f'exec {sys.executable} "$@"')
    add_program(tmp_path, "kapi", KAPI)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KUBE"))}
    environment |= {
        "PATH": f"{tmp_path / 'bin'}:{environment['PATH']}",
        "LANG": "C.UTF-8",
        "KUBECTL_KUBERC": "false",
        # The pytest of the page is not that of this project: it has the plug-ins its reader has.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "kapi.testing.pytest_plugin,pytest_asyncio.plugin",
    }
    with Shell(tmp_path / "work", environment) as shell:
        yield shell


def add_program(folder, name, line):
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_commands_of_the_tour_show_what_it_shows(shell, tmp_path):
    # All that the tour asks of kubectl `kapi` can do, too.
    add_program(tmp_path, "kubectl", f'exec {KUBECTL} "$@"' if KUBECTL.exists() else KAPI)
    (shell.folder / "examples").symlink_to(ROOT / "examples")
    assert shell.type(ROOT / "docs/tutorial/tour.md") > 50


def test_commands_of_the_tutorial_end_with_a_reconciled_object(shell, tmp_path):
    if KUBECTL.exists():
        add_program(tmp_path, "kubectl", f'exec {KUBECTL} "$@"')
        assert shell.type(ROOT / "docs/tutorial/operator.md") > 20
    else:
        # Only kubectl can apply a kustomization; until then the page needs none.
        assert shell.type(ROOT / "docs/tutorial/operator.md", until="kapi up ") > 10
