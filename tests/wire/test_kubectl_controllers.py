"""kubectl and the built-in controllers: deletion of owners, of namespaces and of definitions."""

from __future__ import annotations

import json

import pytest
from defined_kinds import defined, meanwhile

pytestmark = pytest.mark.peers

FLEET = "harbour.example.com/v1"


@pytest.fixture(scope="module", autouse=True)
def _defined(kubectl, kubectl_server):
    with defined(kubectl.path, kubectl_server, "fleet.yaml", "/openapi/v3/apis/harbour.example.com/v1"):
        yield


@pytest.fixture
def tree(terminal):
    """Three levels of mixed kinds: a ConfigMap owns a Fleet, which owns a Secret and a ConfigMap."""
    grow(terminal, "v1", "ConfigMap", "root")
    grow(terminal, FLEET, "Fleet", "branch", ("v1", "ConfigMap", "root"), spec={"flag": "blue"})
    grow(terminal, "v1", "Secret", "leaf", (FLEET, "Fleet", "branch"))
    grow(terminal, "v1", "ConfigMap", "twig", (FLEET, "Fleet", "branch"))
    grow(terminal, "v1", "ConfigMap", "stone")
    return terminal


def grow(terminal, api_version, kind, name, owner=None, **fields):
    """Create an object, owned by another."""
    metadata = {"name": name, "labels": {"part": "tree"}}
    if owner is not None:
        owner_version, owner_kind, owner_name = owner
        uid = terminal.output(f"kubectl get {owner_kind} {owner_name} -o jsonpath='{{.metadata.uid}}'")
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner_version,
                "kind": owner_kind,
                "name": owner_name,
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    terminal.write(f"{name}.yaml", json.dumps(body))
    terminal.output(f"kubectl create -f {name}.yaml")


def until_gone(name):
    """A command that waits until an object is gone. Old kubectls call it an error if it is gone already."""
    return f"kubectl wait --for=delete {name} --timeout=30s || ! kubectl get {name}"


def gone(terminal, *names):
    """Wait until some objects are gone."""
    for name in names:
        terminal.output(until_gone(name))


def test_background_deletion_deletes_the_owner_first(tree):
    tree("""
        $ kubectl delete configmap root --cascade=background
        configmap "root" deleted from <ns> namespace
    """)
    gone(tree, "fleet/branch", "secret/leaf", "configmap/twig")
    tree("""
        $ kubectl get configmaps,secrets,fleets -l part=tree -o name
        configmap/stone
    """)


def test_foreground_deletion_deletes_the_owner_last(tree):
    tree("""
        $ kubectl delete configmap root --cascade=foreground
        configmap "root" deleted from <ns> namespace
        $ kubectl get configmaps,secrets,fleets -l part=tree -o name
        configmap/stone
    """)


def test_foreground_deletion_waits_for_dependents(tree):
    tree.output("""kubectl patch secret leaf --type=merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'""")
    tree("""
        $ kubectl delete configmap root --cascade=foreground --wait=false
        configmap "root" deleted from <ns> namespace
    """)
    gone(tree, "configmap/twig")
    tree("""
        $ kubectl get configmap root -o jsonpath='{.metadata.finalizers}'
        ["foregroundDeletion"]
        $ kubectl get fleet branch -o jsonpath='{.metadata.finalizers}'
        ["foregroundDeletion"]
    """)
    with meanwhile(tree, "bash", "-c", until_gone("configmap/root")):
        tree.output("""kubectl patch secret leaf --type=merge -p '{"metadata":{"finalizers":null}}'""")
    assert tree.run("kubectl get configmaps,secrets,fleets -l part=tree -o name") == "configmap/stone"


def test_orphans_are_kept_without_their_owner(tree):
    tree("""
        $ kubectl delete configmap root --cascade=orphan
        configmap "root" deleted from <ns> namespace
        $ kubectl get fleet branch -o jsonpath='{.metadata.ownerReferences}{.metadata.name}'
        branch
        $ kubectl delete fleet branch --cascade=orphan
        fleet.harbour.example.com "branch" deleted from <ns> namespace
        $ kubectl get configmaps,secrets,fleets -l part=tree -o name
        configmap/stone
        configmap/twig
        secret/leaf
        $ kubectl get secret/leaf configmap/twig -o yaml | grep ownerReferences
        [1]
    """)


def test_an_object_with_an_absent_owner_is_deleted(terminal):
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "stray",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "no-such-uid"}],
        },
    }
    terminal.write("stray.yaml", json.dumps(body))
    terminal("""
        $ kubectl create -f stray.yaml
        configmap/stray created
    """)
    gone(terminal, "configmap/stray")


def test_a_namespace_is_deleted_with_everything_in_it(terminal):
    terminal("""
        $ kubectl create namespace <ns>-x
        namespace/<ns>-x created
        $ kubectl get serviceaccounts -n <ns>-x -o name
        serviceaccount/default
        $ kubectl create configmap a -n <ns>-x
        configmap/a created
        $ kubectl create deployment web --image=web -n <ns>-x
        deployment.apps/web created
        $ kubectl delete namespace <ns>-x
        namespace "<ns>-x" deleted
        $ kubectl get namespace <ns>-x
        Error from server (NotFound): namespaces "<ns>-x" not found
        [1]
        $ kubectl get configmaps -n <ns>-x -o name
    """)


def test_a_blocked_namespace_reports_why_and_is_deleted_when_released(terminal):
    name = f"{terminal.namespace}-x"
    objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"}} for i in range(1000)]
    objects[500]["metadata"]["finalizers"] = ["example.com/stuck"]
    terminal.write("many.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    terminal.output(f"kubectl create namespace {name}")
    terminal.output(f"kubectl create -n {name} -f many.json")
    terminal.output(f"kubectl delete namespace {name} --wait=false")
    terminal.output(f"kubectl wait --for=condition=NamespaceFinalizersRemaining namespace/{name} --timeout=60s")
    shown = json.loads(terminal.output(f"kubectl get namespace {name} -o json"))
    conditions = {one["type"]: one for one in shown["status"]["conditions"]}
    assert shown["status"]["phase"] == "Terminating"
    assert (
        conditions["NamespaceFinalizersRemaining"].items()
        >= {
            "status": "True",
            "reason": "SomeFinalizersRemain",
            "message": "Some content in the namespace has finalizers remaining: example.com/stuck in 1 resource instances",
        }.items()
    )
    assert (
        conditions["NamespaceContentRemaining"].items()
        >= {
            "status": "True",
            "reason": "SomeResourcesRemain",
            "message": "Some resources are remaining: configmaps. has 1 resource instances",
        }.items()
    )
    assert conditions["NamespaceDeletionContentFailure"]["status"] == "False"
    with meanwhile(terminal, "bash", "-c", until_gone(f"namespace/{name}")):
        terminal.output(
            f"""kubectl patch configmap c500 -n {name} --type=merge -p '{{"metadata":{{"finalizers":null}}}}'"""
        )


def test_a_definition_is_deleted_with_its_objects(terminal):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crates.cellar.example.com"},
        "spec": {
            "group": "cellar.example.com",
            "names": {"plural": "crates", "singular": "crate", "kind": "Crate"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    terminal.write("crates.yaml", json.dumps(definition))
    crates = [{"apiVersion": "cellar.example.com/v1", "kind": "Crate", "metadata": {"name": f"c{i}"}} for i in range(3)]
    terminal.write("objects.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": crates}))
    terminal.output("kubectl create -f crates.yaml")
    terminal.output("kubectl wait --for=condition=Established -f crates.yaml")
    terminal.output("until kubectl create -f objects.json; do sleep 0.5; done")
    terminal("""
        $ kubectl delete crd crates.cellar.example.com
        customresourcedefinition.apiextensions.k8s.io "crates.cellar.example.com" deleted
        $ kubectl get crd crates.cellar.example.com
        Error from server (NotFound): customresourcedefinitions.apiextensions.k8s.io "crates.cellar.example.com" not found
        [1]
        $ kubectl get --raw /apis/cellar.example.com/v1/crates
        Error from server (NotFound): the server could not find the requested resource
        [1]
    """)


def test_a_token_secret_of_an_account_has_a_token(terminal):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"}},
    }
    terminal.write("robot.json", json.dumps(secret))
    terminal.output("kubectl create serviceaccount robot")
    terminal.output("kubectl create -f robot.json")
    token = terminal.output(
        "until kubectl get secret robot -o jsonpath='{.data.token}' | grep .; do sleep 0.1; done | base64 -d"
    )
    shown = terminal.run(f"kubectl --token={token} --client-certificate= --client-key= get pods")
    assert "Unauthorized" not in shown
