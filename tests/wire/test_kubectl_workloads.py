"""kubectl on workloads and nodes: deployments, pods, jobs, autoscalers, cordon, drain; no controller is needed for any."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.peers

POD = """
    apiVersion: v1
    kind: Pod
    metadata: {name: NAME}
    spec:
      automountServiceAccountToken: false
      nodeName: NODE
      containers: [{name: main, image: registry.example/app:1}]
"""


def node(name: str) -> str:
    return f"""
        apiVersion: v1
        kind: Node
        metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}
    """


def test_a_deployment_from_the_command_line(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx:1 --replicas=2 --port=80
        deployment.apps/web created
        $ kubectl get deployment web
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE
        web    0/2     0            0           0s
        $ kubectl get deployment web -o wide
        NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES    SELECTOR
        web    0/2     0            0           0s    nginx        nginx:1   app=web
        $ kubectl set image deployment/web nginx=nginx:2
        deployment.apps/web image updated
        $ kubectl set env deployment/web MODE=fast
        deployment.apps/web env updated
        $ kubectl set resources deployment/web --limits=cpu=200m,memory=64Mi
        deployment.apps/web resource requirements updated
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0]}'
        {"env":[{"name":"MODE","value":"fast"}],"image":"nginx:2","imagePullPolicy":"IfNotPresent","name":"nginx","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"limits":{"cpu":"200m","memory":"64Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}
        $ kubectl get deployment web -o jsonpath='{.metadata.generation}'
        4
        $ kubectl delete deployment web --cascade=orphan
        deployment.apps "web" deleted from <ns> namespace
        $ kubectl create deployment fore --image=nginx
        deployment.apps/fore created
        $ kubectl delete deployment fore --cascade=foreground
        deployment.apps "fore" deleted from <ns> namespace
        $ kubectl get deployments
        No resources found in <ns> namespace.
    """)


def test_scaling(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl scale deployment web --replicas=4
        deployment.apps/web scaled
        $ kubectl scale deployment web --current-replicas=4 --replicas=5
        deployment.apps/web scaled
        $ kubectl scale deployment web --current-replicas=4 --replicas=6
        error: Expected replicas to be 4, was 5
        [1]
        $ kubectl get deployment web -o jsonpath={.spec.replicas}
        5
        $ kubectl scale deployment nope --replicas=1 2>&1 | grep -o 'deployments.*'
        deployments.apps "nope" not found
        $ kubectl scale deployment web --replicas=-1
        error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0
        [1]
    """)


def test_rollouts_need_no_controller_to_be_ordered(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl rollout restart deployment web
        deployment.apps/web restarted
        $ kubectl rollout pause deployment web
        deployment.apps/web paused
        $ kubectl rollout pause deployment web
        error: deployments.apps "web" is already paused
        [1]
        $ kubectl rollout resume deployment web
        deployment.apps/web resumed
        $ kubectl rollout history deployment web
        deployment.apps/web
        No rollout history found.
        $ kubectl rollout undo deployment web
        error: no rollout history found for deployment "web"
        [1]
        $ kubectl rollout status deployment web --timeout=1s
        Waiting for deployment spec update to be observed...
        error: timed out waiting for the condition
        [1]
    """)
    stamp = terminal.output(
        "kubectl get deployment web -o jsonpath='{.spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}'"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", stamp)


def test_rollout_history_reads_replica_sets(terminal):
    terminal.output("kubectl create deployment web --image=nginx:2")
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
              annotations: {{deployment.kubernetes.io/revision: "{revision}", kubernetes.io/change-cause: step {revision}}}
              ownerReferences:
              - {{apiVersion: apps/v1, kind: Deployment, name: web, uid: {uid}, controller: true}}
            spec:
              replicas: 0
              selector: {{matchLabels: {{app: web, pod-template-hash: h{revision}}}}}
              template:
                metadata: {{labels: {{app: web, pod-template-hash: h{revision}}}}}
                spec: {{containers: [{{name: nginx, image: "nginx:{revision}"}}]}}
            """,
        )
    terminal("""
        $ kubectl create -f rs1.yaml -f rs2.yaml
        replicaset.apps/web-1 created
        replicaset.apps/web-2 created
        $ kubectl get rs
        NAME    DESIRED   CURRENT   READY   AGE
        web-1   0         0         0       0s
        web-2   0         0         0       0s
        $ kubectl rollout history deployment web
        deployment.apps/web
        REVISION  CHANGE-CAUSE
        1         step 1
        2         step 2
        $ kubectl rollout undo deployment web --to-revision=1
        deployment.apps/web rolled back
        $ kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'
        nginx:1
    """)


def test_run_and_expose(terminal):
    terminal("""
        $ kubectl run web --image=nginx --port=80 --labels=app=web --env=A=1
        pod/web created
        $ kubectl get pod web
        NAME   READY   STATUS    RESTARTS   AGE
        web    0/1     Pending   0          0s
        $ kubectl expose pod web --port=80 --target-port=8080
        service/web exposed
        $ kubectl get service web -o jsonpath='{.spec.selector} {.spec.ports[0].port} {.spec.ports[0].targetPort}'
        {"app":"web"} 80 8080
        $ kubectl create deployment api --image=nginx --port=9000
        deployment.apps/api created
        $ kubectl expose deployment api --name=front --type=NodePort
        service/front exposed
        $ kubectl get service front -o jsonpath='{.spec.ports[0].targetPort} {.spec.selector}'
        9000 {"app":"api"}
        $ kubectl describe service front 2>/dev/null | grep -E '^(Name|Type|Selector):'
        Name:       front
        Selector:   app=api
        Type:       NodePort
        $ kubectl delete service front web
        service "front" deleted from <ns> namespace
        service "web" deleted from <ns> namespace
    """)


def test_services_get_an_address(terminal):
    terminal.output("kubectl create service clusterip web --tcp=80:8080")
    terminal.output("kubectl create service nodeport open --tcp=80")
    terminal.output("kubectl create service externalname far --external-name=example.com")
    addresses = terminal.output("kubectl get service web open -o jsonpath='{.items[*].spec.clusterIP}'").split()
    assert all(re.fullmatch(r"10\.\d+\.\d+\.\d+", address) for address in addresses)
    assert len(set(addresses)) == 2
    port = int(terminal.output("kubectl get service open -o jsonpath='{.spec.ports[0].nodePort}'"))
    assert 30000 <= port <= 32767
    terminal(f"""
        $ kubectl get service
        NAME   TYPE           CLUSTER-IP      EXTERNAL-IP   PORT(S)        AGE
        far    ExternalName   <none>          example.com   <none>         0s
        open   NodePort       {addresses[1]}  <none>        80:{port}/TCP  0s
        web    ClusterIP      {addresses[0]}  <none>        80/TCP         0s
    """)


def test_autoscaling(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl autoscale deployment web --min=2 --max=5 --cpu-percent=80
        ...
        horizontalpodautoscaler.autoscaling/web autoscaled
        $ kubectl get hpa web
        NAME   REFERENCE        TARGETS              MINPODS   MAXPODS   REPLICAS   AGE
        web    Deployment/web   cpu: <unknown>/80%   2         5         0          0s
    """)
    first = json.loads(terminal.output("kubectl get horizontalpodautoscalers.v1.autoscaling web -o json"))
    second = json.loads(terminal.output("kubectl get horizontalpodautoscalers.v2.autoscaling web -o json"))
    assert first["spec"]["targetCPUUtilizationPercentage"] == 80
    assert second["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}


def test_jobs_and_cron_jobs(terminal):
    terminal.write(
        "cron.yaml",
        """
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: nightly}
        spec:
          schedule: "0 3 * * *"
          jobTemplate:
            spec:
              template:
                spec: {restartPolicy: OnFailure, containers: [{name: c, image: busybox}]}
        """,
    )
    terminal("""
        $ kubectl create job once --image=busybox -- echo hello
        job.batch/once created
        $ kubectl get job once -o jsonpath='{.spec.template.spec.restartPolicy} {.spec.completions} {.spec.backoffLimit}'
        Never 1 6
        $ kubectl apply -f cron.yaml
        cronjob.batch/nightly created
        $ kubectl get cronjob nightly
        NAME      SCHEDULE    TIMEZONE   SUSPEND   ACTIVE   LAST SCHEDULE   AGE
        nightly   0 3 * * *   <none>     False     0        <none>          0s
        $ kubectl patch cronjob nightly -p '{"spec":{"suspend":true}}'
        cronjob.batch/nightly patched
        $ kubectl get cronjob nightly -o jsonpath={.spec.suspend}
        true
        $ kubectl delete job once
        job.batch "once" deleted from <ns> namespace
        $ kubectl delete cronjob nightly
        cronjob.batch "nightly" deleted from <ns> namespace
    """)


def test_a_job_from_a_cron_job(terminal):
    if terminal.minor < 21:
        pytest.skip("this kubectl reads cron jobs of batch/v1beta1, which is gone")
    terminal("""
        $ kubectl create cronjob nightly --image=busybox --schedule='0 3 * * *' -- true
        cronjob.batch/nightly created
        $ kubectl create job now --from=cronjob/nightly
        job.batch/now created
        $ kubectl get job now -o jsonpath='{.metadata.ownerReferences[0].kind} {.metadata.annotations}'
        CronJob {"cronjob.kubernetes.io/instantiate":"manual"}
    """)


def test_a_pod_on_a_node_is_deleted_in_two_steps(terminal):
    name = terminal.namespace
    terminal.write("node.yaml", node(name))
    terminal.write("pod.yaml", POD.replace("NAME", "p").replace("NODE", name))
    terminal.write("pod2.yaml", POD.replace("NAME", "q").replace("NODE", name))
    terminal("""
        $ kubectl create -f node.yaml
        ...
        $ kubectl create -f pod.yaml -f pod2.yaml
        pod/p created
        pod/q created
        $ kubectl delete pod p --grace-period=20 --wait=false
        pod "p" deleted from <ns> namespace
        $ kubectl get pod p -o jsonpath={.metadata.deletionGracePeriodSeconds}
        20
        $ kubectl get pod p
        NAME   READY   STATUS        RESTARTS   AGE
        p      0/1     Terminating   0          0s
        $ kubectl delete pod p --now --wait=false
        pod "p" deleted from <ns> namespace
        $ kubectl get pod p -o jsonpath={.metadata.deletionGracePeriodSeconds}
        1
        $ kubectl delete pod p q --force
        ...
        pod "p" force deleted from <ns> namespace
        pod "q" force deleted from <ns> namespace
        $ kubectl get pods
        No resources found in <ns> namespace.
    """)
    terminal.output(f"kubectl delete node {name}")


def test_nodes_are_cordoned_tainted_and_drained(terminal):
    name = terminal.namespace
    terminal.write("node.yaml", node(name))
    terminal.write("pod.yaml", POD.replace("NAME", "p").replace("NODE", name))
    # Before it sends a dry run, 1.20 looks for CRDs of a version that is gone.
    mode, how = ("server", "server dry run") if terminal.minor > 20 else ("client", "dry run")
    terminal(f"""
        $ kubectl create -f node.yaml
        node/{name} created
        $ kubectl get node {name}
        NAME     STATUS    ROLES    AGE   VERSION
        {name}   Unknown   <none>   0s
        $ kubectl create -f pod.yaml
        pod/p created
        $ kubectl cordon {name}
        node/{name} cordoned
        $ kubectl cordon {name}
        node/{name} already cordoned
        $ kubectl get node {name} -o jsonpath={{.spec.unschedulable}}
        true
        $ kubectl uncordon {name}
        node/{name} uncordoned
        $ kubectl taint node {name} key=value:NoExecute
        node/{name} tainted
        $ kubectl get node {name} -o jsonpath='{{.spec.taints[?(@.key=="key")].effect}}'
        NoExecute
        $ kubectl taint node {name} key-
        node/{name} untainted
        $ kubectl drain {name} --dry-run={mode} --force
        node/{name} cordoned ({how})
        ...
        node/{name} drained ({how})
        $ kubectl get pod p -o name
        pod/p
        $ kubectl get pods --field-selector spec.nodeName={name} -o name
        pod/p
        $ kubectl cordon nope
        Error from server (NotFound): nodes "nope" not found
        [1]
    """)
    terminal.output(f"kubectl delete node {name}")


def test_a_drain_evicts_unless_a_budget_forbids(terminal):
    if terminal.minor < 22:
        pytest.skip("this kubectl creates budgets of policy/v1beta1, which is gone")
    name = terminal.namespace
    terminal.write("node.yaml", node(name))
    terminal.write("pod.yaml", POD.replace("NAME", "p, labels: {app: p}").replace("NODE", name))
    terminal(f"""
        $ kubectl create -f node.yaml
        node/{name} created
        $ kubectl create -f pod.yaml
        pod/p created
        $ kubectl create pdb keep --selector=app=p --min-available=1
        poddisruptionbudget.policy/keep created
        $ kubectl get pdb
        NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE
        keep   1               N/A               0                     0s
        $ kubectl delete pdb keep
        poddisruptionbudget.policy "keep" deleted from <ns> namespace
        $ kubectl drain {name} --force --grace-period=0
        node/{name} cordoned
        ...
        evicting pod <ns>/p
        pod/p evicted
        node/{name} drained
        $ kubectl get pods
        No resources found in <ns> namespace.
    """)
    terminal.output(f"kubectl delete node {name}")


def test_without_a_kubelet_there_are_no_logs_and_no_exec(terminal):
    """The pod is on no node: the server must say so rather than hang or pretend."""
    terminal.output("kubectl run p --image=nginx")
    shown = terminal.run("kubectl logs p")
    assert shown == "" or shown.endswith("[1]"), shown
    assert "container nope is not valid for pod p" in terminal.run("kubectl logs p -c nope") or terminal.minor < 21
    assert 'pods "nope" not found' in terminal.run("kubectl logs nope")
    shown = terminal.run("kubectl exec p -- ls")
    assert shown.endswith("[1]")
    assert re.search(r"(?m)^(error: |Error from server)", shown)
