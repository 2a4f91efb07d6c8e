"""kubectl get and describe: tables, selectors, paging, output formats, watches, events."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

pytestmark = pytest.mark.peers

THREE = """
    apiVersion: v1
    kind: List
    items:
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: one, labels: {size: small, app: a}}
      data: {a: "1", b: "2"}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: two, labels: {size: big, app: a}}
      data: {a: "9"}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: three, labels: {size: small, app: b}}
      data: {a: "5"}
"""

POD = """
    apiVersion: v1
    kind: Pod
    metadata: {name: p1, labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      containers: [{name: main, image: registry.example/app:1}]
"""


@pytest.fixture
def three(terminal):
    terminal.write("three.yaml", THREE)
    terminal.output("kubectl create -f three.yaml")
    return terminal


def test_tables_show_what_the_server_prints(three):
    three("""
        $ kubectl get configmaps
        NAME    DATA   AGE
        one     2      0s
        three   1      0s
        two     1      0s
        $ kubectl get cm one
        NAME   DATA   AGE
        one    2      0s
        $ kubectl get cm one two --no-headers
        one    2      0s
        two    1      0s
        $ kubectl get cm --show-labels
        NAME    DATA   AGE   LABELS
        one     2      0s    app=a,size=small
        three   1      0s    app=b,size=small
        two     1      0s    app=a,size=big
        $ kubectl get cm -L size
        NAME    DATA   AGE   SIZE
        one     2      0s    small
        three   1      0s    small
        two     1      0s    big
        $ kubectl get cm -o name
        configmap/one
        configmap/three
        configmap/two
        $ kubectl get secrets
        No resources found in <ns> namespace.
    """)


def test_label_and_field_selectors_filter_lists(three):
    three("""
        $ kubectl get cm -l app=a -o name
        configmap/one
        configmap/two
        $ kubectl get cm -l 'app in (a,b),size!=big' -o name
        configmap/one
        configmap/three
        $ kubectl get cm -l '!size' -o name
        $ kubectl get cm --field-selector metadata.name=two -o name
        configmap/two
        $ kubectl get cm --field-selector metadata.name!=two,metadata.namespace=<ns> -o name
        configmap/one
        configmap/three
        $ kubectl get cm -A --field-selector metadata.name=three,metadata.namespace=<ns> -l app=b --no-headers
        <ns>   three   1   0s
        $ kubectl get cm --field-selector data.a=1
        Error from server (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "", field selector "data.a=1": "data.a" is not a known field selector: only "metadata.name", "metadata.namespace"
        [1]
    """)


def test_lists_are_sorted_and_paged(three):
    three("""
        $ kubectl get cm --sort-by=.data.a
        NAME    DATA   AGE
        one     2      0s
        three   1      0s
        two     1      0s
        $ kubectl get cm --sort-by=.metadata.name --chunk-size=1
        NAME    DATA   AGE
        one     2      0s
        three   1      0s
        two     1      0s
        $ kubectl get cm --chunk-size=1
        NAME    DATA   AGE
        one     2      0s
        three   1      0s
        two     1      0s
        $ kubectl get cm --chunk-size=2 -o name
        configmap/one
        configmap/three
        configmap/two
    """)


def test_output_formats(three):
    # Until 1.21 kubectl showed managedFields unasked; sed takes them out.
    three(r"""
        $ kubectl get cm one -o yaml | sed '/^  managedFields:/,/^  name:/{/^  name:/!d}'
        apiVersion: v1
        data:
          a: "1"
          b: "2"
        kind: ConfigMap
        metadata:
          creationTimestamp: "<time>"
          labels:
            app: a
            size: small
          name: one
          namespace: <ns>
          resourceVersion: <rv>
          uid: <uid>
        $ kubectl get cm two -o jsonpath='{.data.a}{"\n"}'
        9
        $ kubectl get cm -o jsonpath='{range .items[*]}{.metadata.name}={.data.a} {end}'
        one=1 three=5 two=9
        $ kubectl get cm -o jsonpath='{.items[?(@.data.a=="5")].metadata.name}'
        three
        $ kubectl get cm -o go-template='{{range .items}}{{.metadata.name}} {{end}}'
        one three two
        $ kubectl get cm -o custom-columns=NAME:.metadata.name,A:.data.a,B:.data.b
        NAME    A   B
        one     1   2
        three   5   <none>
        two     9   <none>
    """)
    listed = json.loads(three.output("kubectl get cm -o json"))
    assert listed["kind"] == "List"
    assert [item["kind"] for item in listed["items"]] == ["ConfigMap"] * 3


def test_get_of_missing_objects_reports_not_found(terminal):
    terminal("""
        $ kubectl get cm nope
        Error from server (NotFound): configmaps "nope" not found
        [1]
        $ kubectl get deploy/nope cm/nope
        Error from server (NotFound): deployments.apps "nope" not found
        Error from server (NotFound): configmaps "nope" not found
        [1]
        $ kubectl get cm nope --ignore-not-found
        $ kubectl get cm -n nowhere
        No resources found in nowhere namespace.
        $ kubectl get namespace nowhere
        Error from server (NotFound): namespaces "nowhere" not found
        [1]
    """)


def test_get_all_names_each_kind(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl create service clusterip web --tcp=80
        service/web created
        $ kubectl get all -o name
        service/web
        deployment.apps/web
        $ kubectl get deploy,svc -l app=web -o name
        deployment.apps/web
        service/web
    """)


def test_a_watch_prints_changes_as_they_come(terminal):
    terminal.output("kubectl create configmap first")
    with subprocess.Popen(
        ["kubectl", "get", "cm", "-w", "-o", "name"], env=terminal.environment, stdout=subprocess.PIPE, text=True
    ) as watching:
        try:
            lines = watching.stdout
            assert lines is not None
            assert lines.readline() == "configmap/first\n"
            terminal.output("kubectl create configmap second")
            assert lines.readline() == "configmap/second\n"
            terminal.output("kubectl label configmap first a=b")
            assert lines.readline() == "configmap/first\n"
            terminal.output("kubectl delete configmap second")
            assert lines.readline() == "configmap/second\n"
        finally:
            watching.terminate()


def test_output_watch_events_shows_event_types(terminal):
    with subprocess.Popen(
        ["kubectl", "get", "cm", "-w", "--output-watch-events", "--no-headers"],
        env=terminal.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            lines = watching.stdout
            assert lines is not None
            # Without an object there is no first line to wait for; creating until one shows up would race with nothing
            # else in this namespace.
            terminal.output("kubectl create configmap a --from-literal=x=1")
            assert lines.readline().split()[:3] == ["ADDED", "a", "1"]
            terminal.output('kubectl patch configmap a -p \'{"data":{"y":"2"}}\'')
            assert lines.readline().split()[:3] == ["MODIFIED", "a", "2"]
            terminal.output("kubectl delete configmap a")
            assert lines.readline().split()[:3] == ["DELETED", "a", "2"]
        finally:
            watching.terminate()


def test_describe_a_config_map_and_a_secret(terminal):
    terminal("""
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ kubectl create secret generic s --from-literal=password=hidden
        secret/s created
        $ kubectl get secret s
        NAME   TYPE     DATA   AGE
        s      Opaque   1      0s
        $ kubectl get secret s -o jsonpath={.data.password}
        aGlkZGVu
        $ kubectl describe secret s
        Name:         s
        Namespace:    <ns>
        Labels:       <none>
        Annotations:  <none>

        Type:  Opaque

        Data
        ====
        password:  6 bytes
    """)
    shown = terminal.run("kubectl describe configmap a")
    assert shown.startswith(
        "Name:  a\nNamespace:  <ns>\nLabels:  <none>\nAnnotations:  <none>\n\nData\n====\nx:\n----\n1\n"
    )
    assert shown.endswith("Events:  <none>")


def test_describe_a_namespace_with_its_quota_and_limits(terminal):
    terminal.write(
        "limits.yaml",
        """
        apiVersion: v1
        kind: LimitRange
        metadata: {name: limits}
        spec:
          limits:
          - type: Container
            default: {cpu: 500m, memory: 64Mi}
            defaultRequest: {cpu: 250m}
            max: {cpu: "2"}
        """,
    )
    terminal("""
        $ kubectl create quota q --hard=configmaps=5,pods=3 2>/dev/null
        resourcequota/q created
        $ kubectl create -f limits.yaml 2>/dev/null
        limitrange/limits created
    """)
    shown = terminal.run(f"kubectl describe namespace {terminal.namespace}")
    assert "Labels:  kubernetes.io/metadata.name=<ns>" in shown
    assert "Status:  Active" in shown
    assert "Resource Quotas" in shown
    assert "Container  cpu  -  2  250m  500m  -" in shown


def test_describe_a_pod_with_its_events(terminal):
    terminal.write("pod.yaml", POD)
    terminal.output("kubectl create -f pod.yaml")
    uid = terminal.output("kubectl get pod p1 -o jsonpath={.metadata.uid}")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    terminal.write(
        "event.yaml",
        f"""
        apiVersion: v1
        kind: Event
        metadata: {{name: p1.1}}
        involvedObject: {{apiVersion: v1, kind: Pod, name: p1, namespace: {terminal.namespace}, uid: {uid}}}
        reason: FailedScheduling
        message: 0/0 nodes are available
        type: Warning
        firstTimestamp: {now}
        lastTimestamp: {now}
        count: 3
        source: {{component: default-scheduler}}
        """,
    )
    terminal("""
        $ kubectl create -f event.yaml
        event/p1.1 created
        $ kubectl get events
        LAST SEEN   TYPE      REASON             OBJECT   MESSAGE
        0s          Warning   FailedScheduling   pod/p1   0/0 nodes are available
        $ kubectl get events --field-selector involvedObject.name=p1,reason=FailedScheduling,type=Warning -o name
        event/p1.1
        $ kubectl get events --field-selector involvedObject.name=other -o name
        $ kubectl get events.events.k8s.io -o jsonpath='{.items[0].note}'
        0/0 nodes are available
    """)
    shown = terminal.run("kubectl describe pod p1")
    for line in ("Status:  Pending", "Node:  <none>", "QoS Class:  BestEffort", "Image:  registry.example/app:1"):
        assert line in shown
    assert "Warning  FailedScheduling" in shown
    if terminal.minor >= 26:
        terminal("""
            $ kubectl events
            LAST SEEN        TYPE      REASON             OBJECT   MESSAGE
            ...
            $ kubectl events --for pod/other
            No events found in <ns> namespace.
        """)
        assert "FailedScheduling  Pod/p1  0/0 nodes are available" in terminal.run("kubectl events --for pod/p1")


def test_pods_are_found_by_phase_and_node(terminal):
    terminal.write("pod.yaml", POD)
    terminal("""
        $ kubectl create -f pod.yaml
        pod/p1 created
        $ kubectl get pods
        NAME   READY   STATUS    RESTARTS   AGE
        p1     0/1     Pending   0          0s
        $ kubectl get pods -o wide
        NAME   READY   STATUS    RESTARTS   AGE   IP       NODE     NOMINATED NODE   READINESS GATES
        p1     0/1     Pending   0          0s    <none>   <none>   <none>           <none>
        $ kubectl get pods --field-selector status.phase=Pending -o name
        pod/p1
        $ kubectl get pods --field-selector status.phase=Running -o name
        $ kubectl get pods --field-selector spec.nodeName= -o name
        pod/p1
        $ kubectl get pods -A -l app=web --field-selector metadata.namespace=<ns>,status.phase!=Running
        NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE
        <ns>        p1     0/1     Pending   0          0s
    """)


def test_sub_resources_can_be_read(terminal):
    if terminal.minor < 24:
        pytest.skip("this kubectl has no --subresource")
    terminal("""
        $ kubectl create deployment web --image=nginx --replicas=2
        deployment.apps/web created
        $ kubectl get deployment web --subresource=scale
        NAME   DESIRED   AVAILABLE   AGE
        web    2         0           <age>
        $ kubectl get deployment web --subresource=status
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE
        web    0/2     0            0           <age>
        $ kubectl patch deployment web --subresource=status --type=merge -p '{"status":{"replicas":2,"readyReplicas":1}}'
        deployment.apps/web patched
        $ kubectl get deployment web
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE
        web    1/2     0            0           <age>
    """)
