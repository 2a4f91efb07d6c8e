"""kubectl on one object: create, label, patch, replace, edit, apply, diff, delete, wait; what two writers see."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

pytestmark = pytest.mark.peers


def test_labels_and_annotations(terminal):
    labeled = "unlabeled" if terminal.minor >= 24 else "labeled"
    terminal(f"""
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ kubectl label configmap a app=web tier=front
        configmap/a labeled
        $ kubectl label configmap a app=other
        error: 'app' already has a value (web), and --overwrite is false
        [1]
        $ kubectl label configmap a app=other --overwrite
        configmap/a labeled
        $ kubectl label configmap a app=other --overwrite
        configmap/a {"not " if terminal.minor >= 20 else ""}labeled
        $ kubectl label configmap a tier-
        configmap/a {labeled}
        $ kubectl get configmap a --show-labels --no-headers
        a   1   0s   app=other
        $ kubectl annotate configmap a note='two words'
        configmap/a annotated
        $ kubectl get configmap a -o jsonpath={{.metadata.annotations.note}}
        two words
        $ kubectl annotate configmap a note-
        configmap/a annotated
    """)


def test_an_invalid_label_is_refused(terminal):
    shown = terminal.output("kubectl create configmap a") + terminal.run("kubectl label configmap a 'app=no spaces'")
    assert "a valid label must be an empty string or consist of alphanumeric characters" in shown


def test_json_merge_and_strategic_merge_patches(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"busybox"}]}}}}'
        deployment.apps/web patched
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[*].name}'
        log nginx
        $ kubectl patch deployment web --type=merge -p '{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"a"}]}}}}'
        deployment.apps/web patched
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[*].name}'
        only
        $ kubectl patch deployment web --type=json -p '[{"op":"replace","path":"/spec/replicas","value":5}]'
        deployment.apps/web patched
        $ kubectl patch deployment web --type=json -p '[{"op":"replace","path":"/spec/replicas","value":5}]'
        deployment.apps/web patched (no change)
        $ kubectl get deployment web -o jsonpath='{.spec.replicas} {.metadata.generation}'
        5 4
        $ kubectl patch deployment web --type=json -p '[{"op":"test","path":"/spec/replicas","value":7}]'
        The request is invalid: the server rejected our request due to an error in our request
        [1]
    """)


def test_a_replace_with_an_old_version_is_refused(terminal):
    terminal("""
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ kubectl get configmap a -o yaml > old.yaml
        $ sed 's/x: "1"/x: "2"/' old.yaml > first.yaml
        $ sed 's/x: "1"/x: "3"/' old.yaml > second.yaml
        $ kubectl replace -f first.yaml
        configmap/a replaced
        $ kubectl replace -f second.yaml
        Error from server (Conflict): error when replacing "second.yaml": Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again
        [1]
        $ kubectl get configmap a -o jsonpath={.data.x}
        2
    """)


def test_a_replace_without_a_resource_version_is_unconditional(terminal):
    terminal.write(
        "a.yaml",
        """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        data: {z: "1"}
        """,
    )
    terminal("""
        $ kubectl replace -f a.yaml
        Error from server (NotFound): error when replacing "a.yaml": configmaps "a" not found
        [1]
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ kubectl replace -f a.yaml
        configmap/a replaced
        $ kubectl get configmap a -o jsonpath={.data}
        {"z":"1"}
    """)
    uid = terminal.output("kubectl get configmap a -o jsonpath={.metadata.uid}")
    terminal("""
        $ kubectl replace --force -f a.yaml
        configmap "a" deleted from <ns> namespace
        configmap/a replaced
    """)
    assert terminal.output("kubectl get configmap a -o jsonpath={.metadata.uid}") != uid


def test_an_edit_is_a_patch(terminal):
    terminal("""
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ KUBE_EDITOR="sed -i 's/x: .*/x: changed/'" kubectl edit configmap a
        configmap/a edited
        $ kubectl get configmap a -o jsonpath={.data.x}
        changed
        $ KUBE_EDITOR=true kubectl edit configmap a
        Edit cancelled, no changes made.
    """)


def test_apply_creates_configures_or_leaves_unchanged(terminal):
    manifest = """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 1
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec:
              containers:
              - {name: web, image: "nginx:1", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
    """
    terminal.write("one.yaml", manifest)
    terminal.write(
        "two.yaml", manifest.replace("nginx:1", "nginx:2").replace('{name: B, value: "2"}', '{name: C, value: "3"}')
    )
    terminal("""
        $ kubectl apply -f one.yaml
        deployment.apps/web created
        $ kubectl apply -f one.yaml
        deployment.apps/web unchanged
        $ kubectl scale deployment web --replicas=3
        deployment.apps/web scaled
        $ kubectl patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"proxy"}]}}}}'
        deployment.apps/web patched
        $ kubectl apply -f two.yaml
        deployment.apps/web configured
        $ kubectl get deployment web -o jsonpath='{range .spec.template.spec.containers[*]}{.name}={.image} {end}'
        sidecar=proxy web=nginx:2
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[1].env[*].name} {.spec.replicas}'
        A C 1
        $ kubectl apply view-last-applied deployment web -o json | grep image
                    "image": "nginx:2",
    """)


def test_apply_dry_run_reports_what_it_would_do(terminal):
    terminal.write(
        "a.yaml",
        """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        data: {x: "1"}
        """,
    )
    terminal("""
        $ kubectl apply -f a.yaml --dry-run=server
        configmap/a created (server dry run)
        $ kubectl get configmap a
        Error from server (NotFound): configmaps "a" not found
        [1]
        $ kubectl apply -f a.yaml
        configmap/a created
        $ sed -i 's/"1"/"2"/' a.yaml
        $ kubectl diff -f a.yaml | grep '^[-+]  x'
        -  x: "1"
        +  x: "2"
        $ kubectl diff -f a.yaml > /dev/null
        [1]
        $ kubectl apply -f a.yaml --dry-run=server
        configmap/a configured (server dry run)
        $ kubectl get configmap a -o jsonpath={.data.x}
        1
        $ kubectl apply -f a.yaml
        configmap/a configured
        $ kubectl diff -f a.yaml
    """)


def test_apply_prunes_objects_removed_from_the_manifest(terminal):
    terminal.write(
        "two.yaml",
        """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a, labels: {set: s}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: b, labels: {set: s}}
        """,
    )
    terminal("""
        $ kubectl apply -f two.yaml
        configmap/a created
        configmap/b created
        $ sed -i '/^---/,$d' two.yaml
    """)
    allow = "--prune-whitelist" if terminal.minor < 26 else "--prune-allowlist"
    shown = terminal.run(f"kubectl apply -f two.yaml --prune -l set=s {allow}=core/v1/ConfigMap")
    assert re.fullmatch(r"configmap/a (unchanged|configured)\nconfigmap/b pruned", shown)


def test_creating_twice_is_refused(terminal):
    terminal("""
        $ kubectl create configmap a
        configmap/a created
        $ kubectl create configmap a
        error: failed to create configmap: configmaps "a" already exists
        [1]
        $ kubectl create configmap b --dry-run=server
        configmap/b created (server dry run)
        $ kubectl get configmap b
        Error from server (NotFound): configmaps "b" not found
        [1]
    """)


def test_deleting(terminal):
    terminal("""
        $ kubectl create configmap a
        configmap/a created
        $ kubectl create configmap b
        configmap/b created
        $ kubectl create configmap c
        configmap/c created
        $ kubectl label configmap b c set=s
        configmap/b labeled
        configmap/c labeled
        $ kubectl delete configmap a
        configmap "a" deleted from <ns> namespace
        $ kubectl delete configmap a
        Error from server (NotFound): configmaps "a" not found
        [1]
        $ kubectl delete configmap a --ignore-not-found
        $ kubectl delete configmap -l set=s
        configmap "b" deleted from <ns> namespace
        configmap "c" deleted from <ns> namespace
        $ kubectl delete configmap --all
        No resources found
        $ kubectl delete configmap
        error: resource(s) were provided, but no name was specified
        [1]
    """)


def test_a_finalizer_delays_deletion(terminal):
    # Some kubectls log that their watch ended when they give up waiting.
    terminal.write(
        "held.yaml",
        """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: held, finalizers: [example.com/hold]}
        """,
    )
    terminal("""
        $ kubectl create -f held.yaml
        configmap/held created
        $ kubectl delete configmap held --wait=false
        configmap "held" deleted from <ns> namespace
        $ kubectl get configmap held -o jsonpath='{.metadata.finalizers} {.metadata.deletionGracePeriodSeconds}'
        ["example.com/hold"] 0
        $ set -o pipefail; kubectl delete configmap held --timeout=2s 2>&1 | grep -v reflector.go
        configmap "held" deleted from <ns> namespace
        error: timed out waiting for the condition on configmaps/held
        [1]
        $ kubectl patch configmap held --type=merge -p '{"metadata":{"finalizers":null}}'
        configmap/held patched
        $ kubectl get configmap held
        Error from server (NotFound): configmaps "held" not found
        [1]
    """)


def test_waiting_for_a_deletion(terminal):
    terminal.write(
        "held.yaml",
        """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: held, finalizers: [example.com/hold]}
        """,
    )
    terminal.output("kubectl create -f held.yaml")
    terminal.output("kubectl delete configmap held --wait=false")
    with subprocess.Popen(
        ["kubectl", "wait", "--for=delete", "configmap/held", "--timeout=30s", "-v=6"],
        env=terminal.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        # It logs its requests; once it watches, the deletion cannot come too early.
        assert any("watch=true" in line for line in waiting.stderr)
        terminal.output('kubectl patch configmap held --type=merge -p \'{"metadata":{"finalizers":null}}\'')
        assert waiting.wait(30) == 0


def test_waiting_for_a_condition(terminal):
    terminal("""
        $ kubectl create job once --image=busybox
        job.batch/once created
        $ set -o pipefail; kubectl wait --for=condition=complete job/once --timeout=2s 2>&1 | grep -v reflector.go
        error: timed out waiting for the condition on jobs/once
        [1]
    """)
    complete = {
        "status": {
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:01Z",
            "succeeded": 1,
            "conditions": [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")],
        }
    }
    terminal.write("status.json", json.dumps(complete))
    if terminal.minor < 24:
        return
    terminal("""
        $ kubectl patch job once --subresource=status --type=merge --patch-file=status.json
        job.batch/once patched
        $ kubectl wait --for=condition=complete job/once --timeout=30s
        job.batch/once condition met
        $ kubectl wait --for=jsonpath='{.status.succeeded}'=1 job/once --timeout=30s
        job.batch/once condition met
        $ kubectl get job once
        NAME   STATUS     COMPLETIONS   DURATION   AGE
        once   Complete   1/1           1s         1s
    """)


def test_waiting_for_a_missing_object(terminal):
    terminal("""
        $ kubectl wait --for=condition=ready pod/nope --timeout=1s
        Error from server (NotFound): pods "nope" not found
        [1]
    """)


def test_nothing_is_created_in_a_terminating_namespace(terminal):
    terminal("""
        $ kubectl create namespace <ns>-gone
        namespace/<ns>-gone created
        $ kubectl create configmap a -n <ns>-gone
        configmap/a created
        $ kubectl patch configmap a -n <ns>-gone -p '{"metadata":{"finalizers":["example.com/hold"]}}'
        configmap/a patched
        $ kubectl delete namespace <ns>-gone --wait=false
        namespace "<ns>-gone" deleted
        $ kubectl create configmap b -n <ns>-gone
        error: failed to create configmap: configmaps "b" is forbidden: unable to create new content in namespace <ns>-gone because it is being terminated
        [1]
        $ kubectl get namespace <ns>-gone
        NAME        STATUS        AGE
        <ns>-gone   Terminating   <age>
        $ kubectl patch configmap a -n <ns>-gone --type=merge -p '{"metadata":{"finalizers":null}}'
        configmap/a patched
        $ kubectl create configmap a -n <ns>-never
        error: failed to create configmap: namespaces "<ns>-never" not found
        [1]
    """)


def test_two_field_managers_own_the_fields_they_applied(terminal):
    terminal.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: '1', c: '1'}\n")
    terminal.write("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {b: '2'}\n")
    terminal.write("clash.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: '9', b: '2'}\n")
    terminal.write("less.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: '1'}\n")
    terminal("""
        $ kubectl apply --server-side --field-manager=ann -f a.yaml
        configmap/shared serverside-applied
        $ kubectl apply --server-side --field-manager=bob -f b.yaml
        configmap/shared serverside-applied
        $ kubectl get configmap shared -o jsonpath={.data}
        {"a":"1","b":"2","c":"1"}
        $ kubectl apply --server-side --field-manager=bob -f clash.yaml 2>&1 | grep -m1 conflict
        error: Apply failed with 1 conflict: conflict with "ann": .data.a
        $ kubectl apply --server-side --field-manager=ann -f less.yaml
        configmap/shared serverside-applied
        $ kubectl get configmap shared -o jsonpath={.data}
        {"a":"1","b":"2"}
        $ kubectl apply --server-side --field-manager=bob --force-conflicts -f clash.yaml
        configmap/shared serverside-applied
        $ kubectl get configmap shared -o jsonpath='{.data} {.metadata.managedFields[*].manager}'
        {"a":"9","b":"2"} bob
    """)


def test_client_side_apply_migrates_to_server_side_apply(terminal):
    if terminal.minor < 26:
        pytest.skip("this kubectl does not take over what it applied before")
    terminal.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: '1', b: '2'}\n")
    terminal("""
        $ kubectl apply -f a.yaml
        configmap/moved created
        $ kubectl get configmap moved --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}'
        kubectl-client-side-apply
        $ sed -i "s/, b: '2'//" a.yaml
        $ kubectl apply --server-side -f a.yaml
        configmap/moved serverside-applied
        $ kubectl get configmap moved -o jsonpath={.data}
        {"a":"1"}
    """)
