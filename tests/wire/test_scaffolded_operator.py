"""A scaffolded operator, deployed by kubectl: its manifests apply, and it works with the rights of its ServiceAccount.

And the tests of a project that start processes: smoke, performance and soak."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from kube_apiserver_plane import kube_apiserver_plane
from peers import PEERS, peer
from scaffolded import kapi, make

pytestmark = pytest.mark.peers

SECONDS = 90
COMMANDS = (
    "init --domain=wire.example.com --repo=github.com/example/wired-operator",
    "create api --group scaffold --version v1 --kind Wire",
    "create api --group scaffold --version v1 --kind Plug",
    "create webhook --group scaffold --version v1 --kind Plug --defaulting --programmatic-validation",
)


@pytest.fixture(params=["kapi", "kube-apiserver"])
def admin(request, tmp_path_factory):
    """The kubeconfig of an admin, of each kind of server."""
    if request.param == "kapi":
        yield request.getfixturevalue("shared_server").kubeconfig
    else:
        with kube_apiserver_plane(tmp_path_factory.mktemp("kube-apiserver")) as kubeconfig:
            yield kubeconfig


def test_the_manifests_apply_and_the_operator_works_as_its_service_account(admin, tmp_path):
    kubectl = peer(PEERS / "bin/kubectl", "kubectl")
    environ = {**os.environ, "KUBECONFIG": str(admin), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*command: object, given: str = "") -> str:
        done = subprocess.run(
            [str(one) for one in command],
            cwd=tmp_path,
            env=environ,
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kapi(tmp_path, *COMMANDS)
    applied = run(kubectl, "apply", "--server-side", "-k", "config/default").splitlines()
    assert "deployment.apps/wired-operator serverside-applied" in applied
    assert "customresourcedefinition.apiextensions.k8s.io/wires.scaffold.wire.example.com serverside-applied" in applied
    # Without kubectl's own kustomize, and a second time: nothing is in conflict.
    run(sys.executable, "-m", "kapi", "apply", "-f", "-", given=run(kubectl, "kustomize", "config/default"))
    run(
        kubectl, "apply", "--server-side", "-f", "-", given=run(sys.executable, "-m", "kapi", "generate", "certificate")
    )

    kubeconfig = tmp_path / "operator.kubeconfig"
    kubeconfig.write_text(run(kubectl, "config", "view", "--raw", "--minify"))
    token = run(kubectl, "create", "token", "wired-operator", "--namespace=wired-operator-system").strip()
    config = ("--kubeconfig", kubeconfig, "config")
    run(kubectl, *config, "set-credentials", "operator", f"--token={token}")
    run(kubectl, *config, "set-context", "--current", "--user=operator")

    flags = ("--leader-elect", "--leader-elect-resource-namespace=wired-operator-system")
    with (tmp_path / "log").open("w") as log:
        operator = subprocess.Popen(
            [sys.executable, "-m", "wired_operator", f"--kubeconfig={kubeconfig}", *flags],
            cwd=tmp_path,
            env=environ,
            stderr=log,
        )
    try:
        run(kubectl, "apply", "--server-side", "-k", "config/samples")
        for kind in ("wire", "plug"):
            run(kubectl, "wait", f"{kind}/{kind}-sample", "--for=condition=Ready", f"--timeout={SECONDS}s")
    finally:
        operator.send_signal(signal.SIGTERM)
        status = operator.wait(SECONDS)
    assert (status, (tmp_path / "log").read_text().count("forbidden")) == (0, 0)
    # A kube-apiserver alone has no controller that would empty the namespace.
    run(kubectl, "delete", "--ignore-not-found", "--wait=false", "-k", "config/default")


@pytest.mark.timeout(400)
def test_the_project_passes_its_smoke_performance_and_soak_tests(tmp_path):
    kapi(tmp_path, *COMMANDS[:2])
    numbers = {"PERFORMANCE_OBJECTS": "20", "SOAK_ROUNDS": "5", "SOAK_OBJECTS": "10"}
    status, output = make(tmp_path, "smoke", "performance", "soak", **numbers)
    assert status == 0, output
    figures = json.loads((tmp_path / "build/performance.json").read_text())["Wire"]
    assert (figures["objects"], figures["writes_per_object"]) == (20, 1.0)
    assert min(figures.values()) > 0
