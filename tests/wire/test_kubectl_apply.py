"""kubectl on one object from several sides: server-side apply, conflicts, moving over to it, diff, edit, rollouts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from transcript import agrees, normalised, steps

pytestmark = pytest.mark.peers

WEB = """
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
          - {name: web, image: "nginx:1", ports: [{containerPort: 80}]}
"""


def config_map(data: str, metadata: str = "name: a") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{{metadata}}}\ndata: {{{data}}}\n"


def owners(terminal, what: str) -> set[tuple[str, str, str]]:
    """Manager, operation and sub-resource of every entry."""
    flag = " --show-managed-fields" if terminal.minor >= 21 else ""
    entries = json.loads(terminal.output(f"kubectl get {what} -o json{flag}"))["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"], entry.get("subresource", "")) for entry in entries}


TUTORIAL = Path(__file__).parents[2] / "docs/tutorial/two-writers.md"
_BLOCK = re.compile(r"(?:`(\S+\.yaml)`[^`]*\n\n)?```(yaml|console)\n(.*?)```", re.DOTALL)


def test_commands_of_the_tutorial_print_what_it_shows(terminal):
    if terminal.minor < 24:
        pytest.skip("the page is written for kubectl 1.24 and newer")
    blocks = _BLOCK.findall(TUTORIAL.read_text())
    assert len(blocks) > 10
    for name, language, text in blocks:
        if language == "yaml":
            (terminal.directory / name).write_text(text)
            continue
        for step in steps(text):
            # A page shows no exit statuses; failures show in the output.
            got = re.sub(r"\n\[1\]$", "", terminal.run(step.command))
            assert agrees(normalised(step.shown), got), f"$ {step.command}\n{got}"


def test_server_side_apply_of_a_manifest(terminal):
    terminal.write("web.yaml", WEB)
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath='{.metadata.generation} {.metadata.annotations}'
        1
        $ sed -i 's/nginx:1/nginx:2/' web.yaml
        $ kubectl apply --server-side -f web.yaml --dry-run=server
        deployment.apps/web serverside-applied (server dry run)
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'
        nginx:1
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image} {.metadata.generation}'
        nginx:2 2
    """)
    assert owners(terminal, "deployment web") == {("kubectl", "Apply", "")}


def test_a_field_of_another_manager_is_a_conflict(terminal):
    terminal.write("one.yaml", config_map("colour: blue, size: big"))
    terminal.write("two.yaml", config_map("colour: red, size: small"))
    terminal.write("three.yaml", config_map("colour: red"))
    terminal("""
        $ kubectl apply --server-side --field-manager=one -f one.yaml
        configmap/a serverside-applied
    """)
    shown = terminal.run("kubectl apply --server-side --field-manager=two -f three.yaml")
    assert 'Apply failed with 1 conflict: conflict with "one": .data.colour' in shown
    shown = terminal.run("kubectl apply --server-side --field-manager=two -f two.yaml")
    assert 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.colour\n- .data.size' in shown
    assert "--force-conflicts" in shown
    assert shown.endswith("[1]")
    terminal("""
        $ kubectl get configmap a -o jsonpath={.data}
        {"colour":"blue","size":"big"}
        $ kubectl apply --server-side --field-manager=two --force-conflicts -f three.yaml
        configmap/a serverside-applied
        $ kubectl get configmap a -o jsonpath={.data}
        {"colour":"red","size":"big"}
    """)
    shown = terminal.run("kubectl apply --server-side --field-manager=one -f one.yaml")
    assert 'conflict with "two": .data.colour' in shown


def test_two_field_managers_own_the_fields_they_applied(terminal):
    terminal.write("one.yaml", WEB)
    terminal.write(
        "two.yaml",
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, labels: {team: blue}}
        spec:
          template:
            spec:
              containers:
              - {name: sidecar, image: proxy}
              - {name: web, env: [{name: A, value: "1"}]}
        """,
    )
    terminal("""
        $ kubectl apply --server-side --field-manager=one -f one.yaml
        deployment.apps/web serverside-applied
        $ kubectl apply --server-side --field-manager=two --validate=false -f two.yaml
        deployment.apps/web serverside-applied
        $ kubectl apply --server-side --field-manager=one -f one.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath='{.metadata.labels} {.spec.template.spec.containers[*].name}'
        {"team":"blue"} sidecar web
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[1].env} {.spec.replicas}'
        [{"name":"A","value":"1"}] 1
        $ sed -i '/sidecar/d; /labels:/s/, labels.*/}/' two.yaml
        $ kubectl apply --server-side --field-manager=two --validate=false -f two.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath='{.metadata.labels} {.spec.template.spec.containers[*].name}'
         web
    """)


def test_kubectl_scale_takes_ownership_of_replicas(terminal):
    terminal.write("web.yaml", WEB)
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl scale deployment web --replicas=4
        deployment.apps/web scaled
    """)
    shown = terminal.run("kubectl apply --server-side -f web.yaml")
    assert 'with subresource "scale" using apps/v1: .spec.replicas' in shown
    terminal("""
        $ sed -i /replicas/d web.yaml
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath={.spec.replicas}
        4
    """)


def test_client_side_apply_migrates_to_server_side_apply(terminal):
    terminal.write("a.yaml", config_map('x: "1", y: "2"'))
    terminal("""
        $ kubectl apply -f a.yaml
        configmap/a created
        $ sed -i 's/x: "1"/x: "3"/; s/, y: "2"//' a.yaml
        $ kubectl apply --server-side -f a.yaml
        configmap/a serverside-applied
        $ kubectl get configmap a -o jsonpath={.data.x}
        3
    """)
    managers = owners(terminal, "configmap a")
    assert ("kubectl", "Apply", "") in managers
    if terminal.minor >= 26:
        # Newer clients hand over what they owned, so that fields left out are removed.
        assert managers == {("kubectl", "Apply", ""), ("kubectl-last-applied", "Apply", "")}
        assert json.loads(terminal.output("kubectl get configmap a -o jsonpath={.data}")) == {"x": "3"}
    # And back again: the annotation was kept up to date.
    terminal("""
        $ kubectl apply view-last-applied configmap a -o json | grep -o '"x.*'
        "x": "3"
        $ sed -i 's/x: "3"/x: "4"/' a.yaml
        $ kubectl apply -f a.yaml
        configmap/a configured
        $ kubectl get configmap a -o jsonpath={.data.x}
        4
    """)


def test_server_side_apply_keeps_the_last_applied_annotation(terminal):
    terminal.write("a.yaml", config_map('x: "1"'))
    terminal("""
        $ kubectl create -f a.yaml
        configmap/a created
        $ kubectl apply set-last-applied -f a.yaml --create-annotation
        configmap/a configured
        $ kubectl apply view-last-applied -f a.yaml -o json | grep -o '"x.*'
        "x": "1"
        $ KUBE_EDITOR="sed -i 's/x: .*/x: edited/'" kubectl apply edit-last-applied configmap a
        configmap/a edited
        $ kubectl apply view-last-applied configmap a -o json | grep -o '"x.*'
        "x": "edited"
        $ kubectl get configmap a -o jsonpath={.data.x}
        1
    """)


def test_kubectl_diff_shows_changes_without_writing_them(terminal):
    terminal.write("web.yaml", WEB)
    terminal("""
        $ kubectl diff -f web.yaml | grep -oE '(image|replicas): [^{]+$'
        replicas: 1
        image: nginx:1
        $ kubectl apply -f web.yaml
        deployment.apps/web created
        $ kubectl diff -f web.yaml
        $ sed -i 's/nginx:1/nginx:2/' web.yaml
        $ kubectl diff -f web.yaml | grep -oE '^[-+] .*image: nginx.*' | tr -d ' '
        --image:nginx:1
        +-image:nginx:2
        $ kubectl diff --server-side --force-conflicts --field-manager=other -f web.yaml | grep -oE '^[-+] .*image: nginx.*' | tr -d ' '
        --image:nginx:1
        +-image:nginx:2
    """)
    shown = terminal.run("kubectl diff --server-side --field-manager=other -f web.yaml")
    assert '.spec.template.spec.containers[name="web"].image' in shown
    terminal("""
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'
        nginx:1
    """)


def test_edit_and_set_image_record_their_field_managers(terminal):
    terminal.write("web.yaml", WEB)
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl set image deployment/web web=nginx:2
        deployment.apps/web image updated
        $ KUBE_EDITOR="sed -i 's/replicas: 1/replicas: 2/'" kubectl edit deployment web
        deployment.apps/web edited
    """)
    shown = terminal.run("kubectl apply --server-side -f web.yaml")
    assert '.spec.template.spec.containers[name="web"].image' in shown
    assert ".spec.replicas" in shown
    terminal("""
        $ kubectl apply --server-side --force-conflicts -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl get deployment web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].image}'
        1 nginx:1
    """)


def test_a_rollout_restart_survives_the_next_apply(terminal):
    terminal.write("web.yaml", WEB)
    restarted = "{.spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}"
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl rollout restart deployment web
        deployment.apps/web restarted
    """)
    stamp = terminal.output(f"kubectl get deployment web -o jsonpath='{restarted}'")
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
    """)
    assert stamp
    assert terminal.output(f"kubectl get deployment web -o jsonpath='{restarted}'") == stamp


def test_a_rollback_restores_the_template(terminal):
    terminal.write("web.yaml", WEB)
    terminal.output("kubectl apply --server-side -f web.yaml")
    uid = terminal.output("kubectl get deployment web -o jsonpath={.metadata.uid}")
    for revision in (1, 2):
        terminal.write(
            f"rs{revision}.yaml",
            f"""
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata:
              name: web-{revision}
              labels: {{app: web, pod-template-hash: h{revision}}}
              annotations: {{deployment.kubernetes.io/revision: "{revision}"}}
              ownerReferences:
              - {{apiVersion: apps/v1, kind: Deployment, name: web, uid: {uid}, controller: true}}
            spec:
              replicas: 0
              selector: {{matchLabels: {{app: web, pod-template-hash: h{revision}}}}}
              template:
                metadata: {{labels: {{app: web, pod-template-hash: h{revision}}}}}
                spec: {{containers: [{{name: web, image: "nginx:{revision}", ports: [{{containerPort: 80}}]}}]}}
            """,
        )
    terminal("""
        $ kubectl apply --server-side -f rs1.yaml -f rs2.yaml
        replicaset.apps/web-1 serverside-applied
        replicaset.apps/web-2 serverside-applied
        $ sed -i 's/nginx:1/nginx:2/' web.yaml
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl rollout history deployment web --revision=1 | grep -o nginx:.
        nginx:1
        $ kubectl rollout undo deployment web --to-revision=1
        deployment.apps/web rolled back
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'
        nginx:1
    """)
    # The rollback was an update by another field manager, so it conflicts with the manifest.
    assert 'containers[name="web"].image' in terminal.run("kubectl apply --server-side -f web.yaml")


def test_objects_removed_from_the_manifest_are_pruned(terminal):
    allow = "--prune-whitelist" if terminal.minor < 26 else "--prune-allowlist"
    both = config_map("", "name: a, labels: {set: s}") + "---\n" + config_map("", "name: b, labels: {set: s}")
    terminal.write("two.yaml", both)
    terminal(f"""
        $ kubectl apply -f two.yaml
        configmap/a created
        configmap/b created
        $ sed -i '/^---/,$d' two.yaml
        $ kubectl apply -f two.yaml --prune -l set=s {allow}=core/v1/ConfigMap 2>&1 | grep pruned
        configmap/b pruned
        $ kubectl get configmap a b
        NAME   DATA   AGE
        a      0      0s
        Error from server (NotFound): configmaps "b" not found
        [1]
    """)


def test_replace_force_recreates_the_object(terminal):
    terminal.write("a.yaml", config_map('x: "1"'))
    terminal("""
        $ kubectl apply --server-side --field-manager=one -f a.yaml
        configmap/a serverside-applied
        $ kubectl replace --force -f a.yaml
        configmap "a" deleted from <ns> namespace
        configmap/a replaced
    """)
    assert {operation for _, operation, _ in owners(terminal, "configmap a")} == {"Update"}


def test_apply_errors_name_the_field(terminal):
    terminal.write("a.yaml", config_map('x: "1"').replace("\ndata:", "\ndate:"))
    terminal.write("web.yaml", WEB.replace("replicas: 1", "replicas: many"))
    shown = terminal.run("kubectl apply --server-side --validate=false -f a.yaml")
    assert (
        "failed to create typed patch object (<ns>/a; /v1, Kind=ConfigMap): .date: field not declared in schema"
        in shown
    )
    shown = terminal.run("kubectl apply --server-side --validate=false -f web.yaml")
    assert ".spec.replicas: expected numeric (int or float), got string" in shown
    terminal("""
        $ kubectl get configmap a
        Error from server (NotFound): configmaps "a" not found
        [1]
    """)


def test_status_can_be_applied_with_kubectl(terminal):
    if terminal.minor < 24:
        pytest.skip("this kubectl knows no --subresource")
    terminal.write("web.yaml", WEB)
    terminal.write(
        "status.yaml",
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        status: {replicas: 3, readyReplicas: 2}
        """,
    )
    terminal("""
        $ kubectl apply --server-side -f web.yaml
        deployment.apps/web serverside-applied
        $ kubectl patch deployment web --subresource=status --type=merge -p '{"status":{"replicas":3}}'
        deployment.apps/web patched
        $ kubectl get deployment web -o jsonpath='{.status.replicas} {.metadata.generation}'
        3 1
    """)
    assert ("kubectl-patch", "Update", "status") in owners(terminal, "deployment web")
    if terminal.minor >= 32:
        shown = terminal.run("kubectl apply --server-side --subresource=status --validate=false -f status.yaml")
        assert shown == "deployment.apps/web serverside-applied"
        assert ("kubectl", "Apply", "status") in owners(terminal, "deployment web")
