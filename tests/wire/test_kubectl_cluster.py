"""kubectl on the control plane as a whole: discovery, versions, who may do what, documentation of fields, raw paths."""

from __future__ import annotations

import json
import subprocess
import urllib.request

import pytest

pytestmark = pytest.mark.peers

SERVED = {
    "admissionregistration.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
    "v1",
}


def test_the_server_calls_itself_kubernetes_1_36(terminal):
    version = json.loads(terminal.output("kubectl version -o json"))["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


def test_cluster_info_names_the_control_plane(terminal):
    shown = terminal.run("kubectl cluster-info | sed 's/\\x1b\\[[0-9;]*m//g'")
    name = "Kubernetes control plane" if terminal.minor > 19 else "Kubernetes master"
    assert shown == (
        f"{name} is running at <server>\n\n"
        "To further debug and diagnose cluster problems, use 'kubectl cluster-info dump'."
    )


def test_api_versions_lists_every_group(terminal):
    assert set(terminal.output("kubectl api-versions").split()) >= SERVED


def test_api_resources_shows_short_names_scope_and_kind(terminal):
    terminal("""
        $ kubectl api-resources --api-group=apps
        NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND
        controllerrevisions                apps/v1      true         ControllerRevision
        daemonsets            ds           apps/v1      true         DaemonSet
        deployments           deploy       apps/v1      true         Deployment
        replicasets           rs           apps/v1      true         ReplicaSet
        statefulsets          sts          apps/v1      true         StatefulSet
        $ kubectl api-resources --api-group=batch -o name
        cronjobs.batch
        jobs.batch
        $ kubectl api-resources --api-group=rbac.authorization.k8s.io --namespaced=false --no-headers
        clusterrolebindings      rbac.authorization.k8s.io/v1   false   ClusterRoleBinding
        clusterroles             rbac.authorization.k8s.io/v1   false   ClusterRole
        $ kubectl api-resources --api-group=authorization.k8s.io --verbs=list
        NAME   SHORTNAMES   APIVERSION   NAMESPACED   KIND
    """)


def test_api_resources_shows_the_verbs_of_each_resource(terminal):
    wide = terminal.output("kubectl api-resources --api-group='' -o wide --no-headers")
    verbs = {line.split()[0]: line for line in wide.splitlines()}
    separator = " " if terminal.minor < 25 else ","
    everything = separator.join(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))
    assert everything in verbs["pods"]
    assert "create" in verbs["bindings"]
    assert "list" not in verbs["bindings"]


def test_can_i_is_yes_for_the_admin_and_no_for_others(terminal):
    terminal("""
        $ kubectl auth can-i create deployments
        yes
        $ kubectl auth can-i '*' '*' --all-namespaces
        yes
        $ kubectl auth can-i --list
        Resources   Non-Resource URLs   Resource Names   Verbs
        *.*         []                  []               [*]
        ...
        $ kubectl auth can-i get pods --as=nobody
        no
        [1]
        $ kubectl get pods --as=nobody
        Error from server (Forbidden): pods is forbidden: User "nobody" cannot list resource "pods" in API group "" in the namespace "<ns>"
        [1]
    """)


def test_a_role_and_its_binding_grant_what_they_name(terminal):
    terminal("""
        $ kubectl create role reader --verb=get,list --resource=configmaps
        role.rbac.authorization.k8s.io/reader created
        $ kubectl create rolebinding reader --role=reader --user=ann
        rolebinding.rbac.authorization.k8s.io/reader created
        $ kubectl auth can-i list configmaps --as=ann
        yes
        $ kubectl auth can-i delete configmaps --as=ann
        no
        [1]
        $ kubectl get configmaps --as=ann
        No resources found in <ns> namespace.
        $ kubectl get secrets --as=ann
        Error from server (Forbidden): secrets is forbidden: User "ann" cannot list resource "secrets" in API group "" in the namespace "<ns>"
        [1]
    """)


def test_whoami_names_the_admin(terminal):
    if terminal.minor < 28:
        pytest.skip("this kubectl has no auth whoami")
    who = json.loads(terminal.output("kubectl auth whoami -o json"))["status"]["userInfo"]
    assert "system:masters" in who["groups"]
    assert "system:authenticated" in who["groups"]


def test_explain_documents_fields(terminal):
    if terminal.minor < 27:
        terminal("""
            $ kubectl explain deployment.spec.strategy.type
            KIND:     Deployment
            VERSION:  apps/v1

            FIELD:    type <string>

            DESCRIPTION:
                 Type of deployment. Can be "Recreate" or "RollingUpdate". Default is
                 RollingUpdate.
            ...
        """)
        return
    terminal("""
        $ kubectl explain deployment.spec.strategy.type
        GROUP:      apps
        KIND:       Deployment
        VERSION:    v1

        FIELD: type <string>
        ENUM:
            Recreate
            RollingUpdate

        DESCRIPTION:
            Type of deployment. Can be "Recreate" or "RollingUpdate". Default is
            RollingUpdate.
        ...
        $ kubectl explain configmap.data
        KIND:       ConfigMap
        VERSION:    v1

        FIELD: data <map[string]string>


        DESCRIPTION:
            Data contains the configuration data. Each key must consist of alphanumeric
            characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use
            the BinaryData field. The keys stored in Data must not overlap with the keys
            in the BinaryData field, this is enforced during validation process.
        ...
    """)


def test_explain_recursive_walks_the_whole_kind(terminal):
    shown = terminal.output("kubectl explain cronjob --recursive")
    for field in ("jobTemplate", "concurrencyPolicy", "containers", "imagePullPolicy", "lastScheduleTime"):
        assert field in shown


def test_explain_of_a_field_that_does_not_exist(terminal):
    terminal("""
        $ kubectl explain pods.spec.nonsense
        ...
        error: field "nonsense" does not exist
        [1]
    """)


def test_explain_still_reads_the_old_documentation(terminal):
    if terminal.minor < 27:
        pytest.skip("it knows nothing else; see the other explain tests")
    terminal("""
        $ kubectl explain configmap.immutable --output plaintext-openapiv2
        KIND:     ConfigMap
        VERSION:  v1

        FIELD:    immutable <boolean>

        DESCRIPTION:
             Immutable, if set to true, ensures that data stored in the ConfigMap cannot
             be updated (only object metadata can be modified). If not set to true, the
             field can be modified at any time. Defaulted to nil.
    """)


def test_raw_paths_are_passed_through(terminal):
    terminal("""
        $ kubectl get --raw /readyz
        ok
        $ kubectl get --raw /livez
        ok
        $ kubectl get --raw /nothing
        Error from server (NotFound): the server could not find the requested resource
        [1]
    """)
    groups = json.loads(terminal.output("kubectl get --raw /apis"))
    assert groups["kind"] == "APIGroupList"
    assert {"apps", "batch"} <= {group["name"] for group in groups["groups"]}
    assert b"apiserver_" in terminal.output("kubectl get --raw /metrics").encode()


def test_raw_bodies_are_created_and_deleted(terminal):
    terminal.write("raw.json", '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"raw"}}')
    path = f"/api/v1/namespaces/{terminal.namespace}/configmaps"
    created = json.loads(terminal.output(f"kubectl create --raw {path} -f raw.json"))
    assert created["metadata"]["name"] == "raw"
    deleted = json.loads(terminal.output(f"kubectl delete --raw {path}/raw"))
    assert deleted["status"] == "Success"
    assert deleted["details"] == {"name": "raw", "kind": "configmaps", "uid": created["metadata"]["uid"]}


def test_kubectl_proxy_forwards_requests(terminal):
    with subprocess.Popen(
        ["kubectl", "proxy", "--port=0"], env=terminal.environment, stdout=subprocess.PIPE, text=True
    ) as proxy:
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().removeprefix("Starting to serve on ").strip()
            with urllib.request.urlopen(
                f"http://{address}/api/v1/namespaces/{terminal.namespace}", timeout=10
            ) as answer:
                assert json.load(answer)["metadata"]["name"] == terminal.namespace
        finally:
            proxy.terminate()


def test_top_reports_that_the_metrics_api_is_not_available(terminal):
    terminal("""
        $ kubectl top pods
        error: Metrics API not available
        [1]
        $ kubectl top nodes
        error: Metrics API not available
        [1]
    """)
