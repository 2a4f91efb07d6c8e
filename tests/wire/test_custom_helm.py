"""Helm on a chart that brings a custom kind of its own: the kind comes first and stays, its objects are the release's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import PEERS, peer
from transcript import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi_process import Server

pytestmark = pytest.mark.peers

CHART = Path(__file__).parent / "custom-chart"
OVEN = "kubectl get oven bread -o jsonpath='{.spec} {.metadata.generation}'"


@pytest.fixture
def helm(shared_server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A terminal with Helm, kubectl and the chart; the kind that the chart brought is gone afterwards."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("helm", "kubectl"):
        (programs / name).symlink_to(peer(PEERS / "bin" / name, name))
    shutil.copytree(CHART, tmp_path / "chart")
    config = shutil.copy(request.config.getoption("--kubeconfig") or shared_server.kubeconfig, tmp_path / "config")
    environment = {"HOME": str(tmp_path), "KUBECONFIG": str(config), "PATH": f"{programs}:{os.defpath}"}
    terminal = Terminal(tmp_path, environment, 36, "custom-helm")
    terminal.output("kubectl create namespace custom-helm")
    terminal.output("kubectl config set-context --current --namespace=custom-helm")
    yield terminal
    terminal.output("kubectl delete crd ovens.bakery.example.com --ignore-not-found")


def test_a_chart_installs_its_custom_resource_definition(helm):
    helm(f"""
        $ helm install bread chart | grep -E '^(STATUS|REVISION)'
        STATUS: deployed
        REVISION: 1
        $ {OVEN}
        {{"heat":230,"loaves":3,"racks":["top","bottom"]}} 1
        $ kubectl get crd ovens.bakery.example.com -o jsonpath='{{.metadata.labels}}'
        $ kubectl patch oven bread --type=merge -p '{{"spec":{{"heat":180}}}}'
        oven.bakery.example.com/bread patched
        $ helm upgrade bread chart --set loaves=5 > /dev/null
        $ {OVEN}
        {{"heat":180,"loaves":5,"racks":["top","bottom"]}} 3
        $ helm upgrade bread chart --set loaves=11 2>&1 | grep -o 'Oven[.].*'
        Oven.bakery.example.com "bread" is invalid: spec.loaves: Invalid value: 11: spec.loaves in body should be less than or equal to 10
        $ helm rollback bread 1
        Rollback was a success! Happy Helming!
        $ {OVEN}
        {{"heat":180,"loaves":3,"racks":["top","bottom"]}} 4
        $ helm uninstall bread
        release "bread" uninstalled
        $ kubectl get ovens
        No resources found in <ns> namespace.
        $ helm install bread chart > /dev/null
        $ helm uninstall bread --wait
        release "bread" uninstalled
    """)
