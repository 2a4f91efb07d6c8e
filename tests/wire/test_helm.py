"""Helm on our chart: install, upgrade, roll back, uninstall. Its releases are Secrets; no controller is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from peers import PEERS, peer
from transcript import Terminal

if TYPE_CHECKING:
    from kapi_process import Server

pytestmark = pytest.mark.peers

CHART = Path(__file__).parent / "chart"
DEPLOYMENT = "kubectl get deployment web -o jsonpath='{.spec.replicas} {.metadata.generation}'"


@pytest.fixture
def helm(shared_server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Terminal:
    """A terminal with Helm, kubectl and the chart, in a namespace of the test's own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").symlink_to(peer(PEERS / "bin/helm", "helm"))
    (programs / "kubectl").symlink_to(peer(PEERS / "bin/kubectl", "kubectl"))
    shutil.copytree(CHART, tmp_path / "chart")
    config = shutil.copy(request.config.getoption("--kubeconfig") or shared_server.kubeconfig, tmp_path / "config")
    environment = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(config),
        "PATH": f"{programs}:{os.defpath}",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    namespace = request.node.name.removeprefix("test_").replace("_", "-")[:60].rstrip("-")
    terminal = Terminal(tmp_path, environment, 36, namespace)
    terminal.output(f"kubectl create namespace {namespace}")
    terminal.output(f"kubectl config set-context --current --namespace={namespace}")
    return terminal


def _owned_by(helm: Terminal, manager: str) -> dict[str, object]:
    """What a manager owns of the deployment."""
    shown = helm.output("kubectl get deployment web -o json --show-managed-fields")
    entries = json.loads(shown)["metadata"]["managedFields"]
    return {entry["operation"]: entry["fieldsV1"] for entry in entries if entry["manager"] == manager}


def test_a_release_is_installed_and_shown(helm):
    shown = helm.run("helm install web chart")
    assert re.search(r"(?m)^STATUS: deployed\nREVISION: 1$", shown), shown
    assert shown.endswith("NOTES:\nweb says hello.")
    helm("""
        $ helm list -o json | tr ',' '\\n' | grep -E 'name|status|revision' | tr -d '{}[]'
        "name":"web"
        "namespace":"<ns>"
        "revision":"1"
        "status":"deployed"
        $ helm status web | grep -E '^(NAME|STATUS|REVISION)'
        NAME: web
        NAMESPACE: <ns>
        STATUS: deployed
        REVISION: 1
        $ helm get values web --all | grep -v COMPUTED
        extra: true
        greeting: hello
        image: registry.example/greeter:1
        password: secret
        replicas: 1
        $ helm get manifest web | grep -c '^kind:'
        6
        $ helm get notes web
        NOTES:
        web says hello.
        $ helm get hooks web | grep -o hook:.*
        hook: pre-install,pre-upgrade
        $ kubectl get configmap,deployment,service,serviceaccount -l app.kubernetes.io/managed-by=Helm -o name
        configmap/web
        configmap/web-extra
        deployment.apps/web
        service/web
        serviceaccount/web
        $ kubectl get secret -o custom-columns=NAME:.metadata.name,TYPE:.type
        NAME                        TYPE
        sh.helm.release.v1.web.v1   helm.sh/release.v1
        web                         Opaque
        $ kubectl get secret web -o jsonpath={.data.password} | base64 -d
        secret
        $ kubectl get configmap web-hook -o jsonpath={.data.revision}
        1
    """)
    assert set(_owned_by(helm, "helm")) == {"Update"}


def test_a_release_is_upgraded_and_rolled_back(helm):
    helm.output("helm install web chart")
    address = helm.output("kubectl get service web -o jsonpath={.spec.clusterIP}")
    helm.output("helm upgrade web chart --set replicas=3,greeting=bye,extra=false")
    helm(f"""
        $ {DEPLOYMENT}
        3 2
        $ kubectl get configmap -o name --field-selector metadata.name!=kube-root-ca.crt
        configmap/web
        configmap/web-hook
        $ kubectl get configmap web web-hook -o jsonpath='{{.items[0].data.greeting}} {{.items[1].data.revision}}'
        bye 2
        $ helm rollback web 1
        Rollback was a success! Happy Helming!
        $ {DEPLOYMENT}
        1 3
        $ kubectl get configmap web web-extra -o jsonpath='{{.items[0].data.greeting}} {{.items[1].data.note}}'
        hello only as long as it is wanted
        $ helm history web -o json | tr ',' '\\n' | grep -E 'revision|status|description' | tr -d '{{}}[]'
        "revision":1
        "status":"superseded"
        "description":"Install complete"
        "revision":2
        "status":"superseded"
        "description":"Upgrade complete"
        "revision":3
        "status":"deployed"
        "description":"Rollback to 1"
    """)
    assert helm.output("kubectl get service web -o jsonpath={.spec.clusterIP}") == address


def test_an_upgrade_keeps_fields_of_other_managers(helm):
    helm.output("helm install web chart")
    helm("""
        $ kubectl label deployment web team=blue
        deployment.apps/web labeled
        $ kubectl patch configmap web --type=merge -p '{"data":{"mine":"1"}}'
        configmap/web patched
        $ helm upgrade web chart --set greeting=bye > /dev/null
        $ kubectl get deployment web -o jsonpath={.metadata.labels.team}
        blue
        $ kubectl get configmap web -o jsonpath={.data}
        {"greeting":"bye","mine":"1"}
    """)


def test_a_release_is_uninstalled(helm):
    helm.output("helm install web chart")
    helm("""
        $ helm uninstall web
        release "web" uninstalled
        $ helm list --short
        $ kubectl get configmap,deployment,service,secret,serviceaccount -o name | grep web
        configmap/web-hook
        $ helm status web
        Error: release: not found
        [1]
    """)


def test_a_release_may_keep_its_history(helm):
    helm.output("helm install web chart")
    helm("""
        $ helm uninstall web --keep-history
        release "web" uninstalled
        $ helm list --all --short
        web
        $ helm rollback web 1
        Rollback was a success! Happy Helming!
        $ kubectl get deployment web -o name
        deployment.apps/web
    """)


def test_failures_are_reported(helm):
    helm("""
        $ helm upgrade web chart
        Error: UPGRADE FAILED: "web" has no deployed releases
        [1]
        $ helm install web chart --dry-run=server > /dev/null
        $ helm list --all --short
        $ helm install web chart --set replicas=many 2>&1 | grep -o 'Deployment.*'
        Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32
        $ helm list --all -o json | tr ',' '\\n' | grep status
        "status":"failed"
        $ helm upgrade web chart --install --reset-values > /dev/null
        $ helm install web chart
        Error: INSTALLATION FAILED: cannot re-use a name that is still in use
        [1]
        $ helm install other chart --set replicas=-1 2>&1 | grep -o 'Deployment.*'
        Deployment.apps "other" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
    """)


def test_existing_objects_are_adopted_only_with_ownership_metadata(helm):
    helm("""
        $ kubectl create configmap web
        configmap/web created
    """)
    shown = helm.run("helm install web chart")
    assert "exists and cannot be imported into the current release: invalid ownership metadata" in shown
    helm("""
        $ kubectl label configmap web app.kubernetes.io/managed-by=Helm
        configmap/web labeled
        $ kubectl annotate configmap web meta.helm.sh/release-name=web meta.helm.sh/release-namespace=<ns>
        configmap/web annotated
        $ helm install web chart > /dev/null
        $ kubectl get configmap web -o jsonpath={.data.greeting}
        hello
    """)
