"""Access control in kubectl: who may do what, as others, and how roles are granted."""

import json


def test_can_i_lists_what_a_user_may_do_in_a_namespace(terminal):
    terminal("""
        $ kubectl create role reader --verb=get,list --resource=configmaps --resource-name=one
        role.rbac.authorization.k8s.io/reader created
        $ kubectl create rolebinding reader --role=reader --user=<ns>-ann
        rolebinding.rbac.authorization.k8s.io/reader created
    """)
    listed = terminal.output("kubectl auth can-i --list --as=<ns>-ann --no-headers".replace("<ns>", terminal.namespace))
    rows = [line.split("  ") for line in listed.splitlines()]
    found = {row[0].strip(): [part.strip() for part in row[1:] if part.strip()] for row in rows}
    assert found["configmaps"] == ["[]", "[one]", "[get list]"]
    assert found["selfsubjectaccessreviews.authorization.k8s.io"] == ["[]", "[]", "[create]"]
    assert "/healthz" in listed


def test_can_i_answers_for_subresources_names_and_paths(terminal):
    terminal("""
        $ kubectl create role logs --verb=get --resource=pods/log
        role.rbac.authorization.k8s.io/logs created
        $ kubectl create rolebinding logs --role=logs --group=<ns>-devs
        rolebinding.rbac.authorization.k8s.io/logs created
        $ kubectl auth can-i get pods --subresource=log --as=ann --as-group=<ns>-devs
        yes
        $ kubectl auth can-i get pods --as=ann --as-group=<ns>-devs
        no
        [1]
        $ kubectl auth can-i get pods --subresource=log --as=ann
        no
        [1]
        $ kubectl auth can-i get /healthz --as=ann
        yes
        $ kubectl auth can-i get /metrics --as=ann
        no
        [1]
    """)


def test_reconcile_adds_the_permissions_that_are_missing(terminal):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": terminal.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
    }
    file = terminal.write("role.json", json.dumps(role))
    terminal("""
        $ kubectl create role reader --verb=watch --resource=pods
        role.rbac.authorization.k8s.io/reader created
    """)
    assert "reader reconciled" in terminal.output(f"kubectl auth reconcile -f {file}")
    rules = json.loads(terminal.output("kubectl get role reader -o json"))["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_user_may_not_grant_more_than_it_has(terminal):
    terminal("""
        $ kubectl create role granter --verb=create --resource=roles,rolebindings --verb=get --resource=configmaps
        role.rbac.authorization.k8s.io/granter created
        $ kubectl create rolebinding granter --role=granter --user=ann
        rolebinding.rbac.authorization.k8s.io/granter created
        $ kubectl create role reader --verb=get --resource=configmaps --as=ann
        role.rbac.authorization.k8s.io/reader created
        $ kubectl create role nodes --verb=delete --resource=nodes --as=ann 2>&1 | tail -n 1
        {APIGroups:[""], Resources:["nodes"], Verbs:["delete"]}
        $ kubectl create rolebinding more --clusterrole=cluster-admin --user=ann --as=ann 2>&1 | tail -n 2
        {APIGroups:["*"], Resources:["*"], Verbs:["*"]}
        {NonResourceURLs:["*"], Verbs:["*"]}
        $ kubectl get role,rolebinding -o name
        role.rbac.authorization.k8s.io/granter
        role.rbac.authorization.k8s.io/reader
        rolebinding.rbac.authorization.k8s.io/granter
    """)
    refused = terminal.run("kubectl create role nodes --verb=delete --resource=nodes --as=ann")
    why = 'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:'
    assert f'roles.rbac.authorization.k8s.io "nodes" is forbidden: {why}' in refused


def test_a_service_account_with_a_role_does_its_job_and_nothing_else(terminal):
    terminal("""
        $ kubectl create serviceaccount robot
        serviceaccount/robot created
        $ kubectl create role robot --verb=get,list,watch,update,patch --resource=configmaps
        role.rbac.authorization.k8s.io/robot created
        $ kubectl create rolebinding robot --role=robot --serviceaccount=<ns>:robot
        rolebinding.rbac.authorization.k8s.io/robot created
        $ kubectl create configmap state --from-literal=a=1
        configmap/state created
        $ kubectl patch configmap state -p '{"data":{"a":"2"}}' --as=system:serviceaccount:<ns>:robot
        configmap/state patched
        $ kubectl delete configmap state --as=system:serviceaccount:<ns>:robot
        Error from server (Forbidden): configmaps "state" is forbidden: User "system:serviceaccount:<ns>:robot" cannot delete resource "configmaps" in API group "" in the namespace "<ns>"
        [1]
        $ kubectl get secrets --as=system:serviceaccount:<ns>:robot
        Error from server (Forbidden): secrets is forbidden: User "system:serviceaccount:<ns>:robot" cannot list resource "secrets" in API group "" in the namespace "<ns>"
        [1]
    """)


def test_metrics_are_read_with_a_role_for_their_path(terminal):
    terminal("""
        $ kubectl create clusterrole <ns>-metrics --verb=get --non-resource-url=/metrics
        clusterrole.rbac.authorization.k8s.io/<ns>-metrics created
        $ kubectl create clusterrolebinding <ns>-metrics --clusterrole=<ns>-metrics --serviceaccount=<ns>:prometheus
        clusterrolebinding.rbac.authorization.k8s.io/<ns>-metrics created
        $ kubectl get --raw /metrics --as=system:serviceaccount:<ns>:prometheus | grep -c '^# TYPE apiserver_request_total'
        1
        $ kubectl get --raw /metrics --as=system:serviceaccount:<ns>:other
        Error from server (Forbidden): forbidden: User "system:serviceaccount:<ns>:other" cannot get path "/metrics"
        [1]
    """)
