"""Many kinds through kubectl: created from the command line (protobuf in newer versions) or a manifest, shown as the
table of the real server, deleted."""

from __future__ import annotations

import base64
import json
import textwrap

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

pytestmark = pytest.mark.peers

# Kind as typed: what kubectl calls the object made from the manifest, its table, the manifest.
KINDS = {
    "pvc": (
        "persistentvolumeclaim/claim",
        """
            NAME    STATUS    VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   VOLUMEATTRIBUTESCLASS   AGE
            claim   Pending                                      fast           <unset>                 0s
        """,
        """
            apiVersion: v1
            kind: PersistentVolumeClaim
            metadata: {name: claim}
            spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
        """,
    ),
    "networkpolicy": (
        "networkpolicy.networking.k8s.io/closed",
        """
            NAME     POD-SELECTOR   AGE
            closed   app=web        0s
        """,
        """
            apiVersion: networking.k8s.io/v1
            kind: NetworkPolicy
            metadata: {name: closed}
            spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
        """,
    ),
    "limitrange": (
        "limitrange/limits",
        """
            NAME     CREATED AT
            limits   2026-01-01T00:00:00Z
        """,
        """
            apiVersion: v1
            kind: LimitRange
            metadata: {name: limits}
            spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}, default: {cpu: 200m}}]}
        """,
    ),
    "lease": (
        "lease.coordination.k8s.io/lock",
        """
            NAME   HOLDER   AGE
            lock   me       0s
        """,
        """
            apiVersion: coordination.k8s.io/v1
            kind: Lease
            metadata: {name: lock}
            spec: {holderIdentity: me, leaseDurationSeconds: 15, renewTime: "2026-01-02T03:04:05.678901Z"}
        """,
    ),
    "statefulset": (
        "statefulset.apps/db",
        """
            NAME   READY   AGE
            db     0/3     0s
        """,
        """
            apiVersion: apps/v1
            kind: StatefulSet
            metadata: {name: db}
            spec:
              serviceName: db
              replicas: 3
              selector: {matchLabels: {app: db}}
              template:
                metadata: {labels: {app: db}}
                spec: {containers: [{name: db, image: "postgres:17"}]}
        """,
    ),
    "daemonset": (
        "daemonset.apps/agent",
        """
            NAME    DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE
            agent   0         0         0       0            0           disk=ssd        0s
        """,
        """
            apiVersion: apps/v1
            kind: DaemonSet
            metadata: {name: agent}
            spec:
              selector: {matchLabels: {app: agent}}
              template:
                metadata: {labels: {app: agent}}
                spec: {containers: [{name: agent, image: "agent:1"}], nodeSelector: {disk: ssd}}
        """,
    ),
    "endpointslice": (
        "endpointslice.discovery.k8s.io/web-1",
        """
            NAME    ADDRESSTYPE   PORTS   ENDPOINTS   AGE
            web-1   IPv4          80      10.1.2.3    0s
        """,
        """
            apiVersion: discovery.k8s.io/v1
            kind: EndpointSlice
            metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
            addressType: IPv4
            ports: [{name: http, port: 80}]
            endpoints: [{addresses: [10.1.2.3], conditions: {ready: true}}]
        """,
    ),
    "ingress": (
        "ingress.networking.k8s.io/front",
        """
            NAME    CLASS   HOSTS         ADDRESS   PORTS   AGE
            front   nginx   example.com             80      0s
        """,
        """
            apiVersion: networking.k8s.io/v1
            kind: Ingress
            metadata: {name: front}
            spec:
              ingressClassName: nginx
              rules:
              - host: example.com
                http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
        """,
    ),
    "pdb": (
        "poddisruptionbudget.policy/keep",
        """
            NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE
            keep   N/A             25%               0                     0s
        """,
        """
            apiVersion: policy/v1
            kind: PodDisruptionBudget
            metadata: {name: keep}
            spec: {maxUnavailable: 25%, selector: {matchLabels: {app: web}}}
        """,
    ),
    "rc": (
        "replicationcontroller/old",
        """
            NAME   DESIRED   CURRENT   READY   AGE
            old    2         0         0       0s
        """,
        """
            apiVersion: v1
            kind: ReplicationController
            metadata: {name: old}
            spec:
              replicas: 2
              template:
                metadata: {labels: {app: old}}
                spec: {containers: [{name: c, image: a}]}
        """,
    ),
}

# kubectl 1.20 describes these in versions that are gone.
DESCRIBED_AS_BETA = {"endpointslice", "pdb"}
# Fields of these are replaced rather than merged, and a kubectl that knows it sends them again though nothing changed.
REPLACED_WHOLE = {"endpointslice": 20, "pdb": 21}

CLUSTER = """
    apiVersion: v1
    kind: PersistentVolume
    metadata: {name: <ns>}
    spec:
      capacity: {storage: 5Gi}
      accessModes: [ReadWriteOnce, ReadOnlyMany]
      storageClassName: slow
      hostPath: {path: /data}
    ---
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: <ns>}
    provisioner: example.com/disk
    ---
    apiVersion: networking.k8s.io/v1
    kind: IngressClass
    metadata: {name: <ns>}
    spec: {controller: example.com/ingress}
    ---
    apiVersion: node.k8s.io/v1
    kind: RuntimeClass
    metadata: {name: <ns>}
    handler: kata
    ---
    apiVersion: v1
    kind: Node
    metadata: {name: <ns>, labels: {node-role.kubernetes.io/worker: ""}}
    ---
    apiVersion: admissionregistration.k8s.io/v1
    kind: ValidatingWebhookConfiguration
    metadata: {name: <ns>}
    webhooks:
    - name: a.example.com
      admissionReviewVersions: [v1]
      sideEffects: None
      clientConfig: {url: "https://127.0.0.1:1/"}
      namespaceSelector: {matchLabels: {no-namespace: has-this}}
      rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
    ---
    apiVersion: storage.k8s.io/v1
    kind: CSIDriver
    metadata: {name: <ns>}
    spec: {attachRequired: false}
"""


def test_config_maps_and_secrets(terminal):
    terminal.write("settings.env", "A=1\nB=2\n")
    terminal("""
        $ kubectl create configmap settings --from-env-file=settings.env --from-literal=c=3 2>/dev/null || kubectl create configmap settings --from-env-file=settings.env
        configmap/settings created
        $ kubectl create configmap file --from-file=settings.env
        configmap/file created
        $ kubectl get cm settings file
        NAME       DATA   AGE
        settings   2      0s
        file       1      0s
        $ kubectl create secret generic key --from-literal=a=1 --from-literal=b=2
        secret/key created
        $ kubectl create secret docker-registry pull --docker-username=u --docker-password=p
        secret/pull created
        $ kubectl get secrets
        NAME   TYPE                             DATA   AGE
        key    Opaque                           2      0s
        pull   kubernetes.io/dockerconfigjson   1      0s
        $ kubectl delete secret key pull
        secret "key" deleted from <ns> namespace
        secret "pull" deleted from <ns> namespace
    """)


def test_access_rules(terminal):
    terminal("""
        $ kubectl create serviceaccount robot
        serviceaccount/robot created
        $ kubectl get sa robot -o name
        serviceaccount/robot
        $ kubectl create role reader --verb=get,list,watch --resource=pods,configmaps 2>/dev/null
        role.rbac.authorization.k8s.io/reader created
        $ kubectl create rolebinding robot --role=reader --serviceaccount=<ns>:robot 2>/dev/null
        rolebinding.rbac.authorization.k8s.io/robot created
        $ kubectl get rolebinding robot -o wide
        NAME    ROLE          AGE   USERS   GROUPS   SERVICEACCOUNTS
        robot   Role/reader   0s                     <ns>/robot
        $ kubectl describe role reader
        Name:         reader
        Labels:       <none>
        Annotations:  <none>
        PolicyRule:
          Resources   Non-Resource URLs  Resource Names  Verbs
          ---------   -----------------  --------------  -----
          configmaps  []                 []              [get list watch]
          pods        []                 []              [get list watch]
        $ kubectl create clusterrole <ns> --verb=get --resource=nodes 2>/dev/null
        clusterrole.rbac.authorization.k8s.io/<ns> created
        $ kubectl create clusterrolebinding <ns> --clusterrole=<ns> --group=readers 2>/dev/null
        clusterrolebinding.rbac.authorization.k8s.io/<ns> created
        $ kubectl get clusterrolebinding <ns> -o jsonpath='{.roleRef.name} {.subjects[0].kind} {.subjects[0].name}'
        <ns> Group readers
        $ kubectl delete clusterrole,clusterrolebinding <ns>
        clusterrole.rbac.authorization.k8s.io "<ns>" deleted
        clusterrolebinding.rbac.authorization.k8s.io "<ns>" deleted
    """)


def test_quotas_and_priorities(terminal):
    terminal("""
        $ kubectl create quota small --hard=pods=3,configmaps=10
        resourcequota/small created
        $ kubectl get quota small -o jsonpath={.spec.hard}
        {"configmaps":"10","pods":"3"}
        $ kubectl create priorityclass <ns> --value=1000 --description=high
        priorityclass.scheduling.k8s.io/<ns> created
        $ kubectl get priorityclass <ns> -o jsonpath='{.value} {.preemptionPolicy} {.description}'
        1000 PreemptLowerPriority high
        $ kubectl patch priorityclass <ns> -p '{"value":5}' 2>&1 | grep -o 'value: .*'
        value: Forbidden: may not be changed in an update.
        $ kubectl delete priorityclass <ns>
        priorityclass.scheduling.k8s.io "<ns>" deleted
    """)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_from_a_manifest(terminal, kind):
    reference, table, manifest = KINDS[kind]
    typed, _, name = reference.partition("/")
    terminal.write("object.yaml", manifest)
    terminal(f"$ kubectl create -f object.yaml 2>/dev/null\n{reference} created")
    terminal(f"$ kubectl get {kind} {name}\n{textwrap.dedent(table).strip()}")
    if terminal.minor > 20 or kind not in DESCRIBED_AS_BETA:
        assert terminal.run(f"kubectl describe {kind} {name} 2>/dev/null").startswith(f"Name:  {name}\n")
    again = "configured" if terminal.minor >= REPLACED_WHOLE.get(kind, 999) else "unchanged"
    terminal(f"""
        $ kubectl apply -f object.yaml 2>/dev/null
        {reference} configured
        $ kubectl apply -f object.yaml
        {reference} {again}
        $ kubectl delete -f object.yaml --wait=false
        {typed} "{name}" deleted from <ns> namespace
    """)


def test_kinds_of_the_cluster(terminal):
    terminal.write("cluster.yaml", CLUSTER.replace("<ns>", terminal.namespace))
    terminal("""
        $ kubectl apply -f cluster.yaml 2>/dev/null
        persistentvolume/<ns> created
        storageclass.storage.k8s.io/<ns> created
        ingressclass.networking.k8s.io/<ns> created
        runtimeclass.node.k8s.io/<ns> created
        node/<ns> created
        validatingwebhookconfiguration.admissionregistration.k8s.io/<ns> created
        csidriver.storage.k8s.io/<ns> created
        $ kubectl apply -f cluster.yaml 2>/dev/null
        persistentvolume/<ns> unchanged
        storageclass.storage.k8s.io/<ns> unchanged
        ingressclass.networking.k8s.io/<ns> unchanged
        runtimeclass.node.k8s.io/<ns> unchanged
        node/<ns> unchanged
        validatingwebhookconfiguration.admissionregistration.k8s.io/<ns> configured
        csidriver.storage.k8s.io/<ns> unchanged
        $ kubectl get pv <ns>
        NAME   CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS      CLAIM   STORAGECLASS   VOLUMEATTRIBUTESCLASS   REASON   AGE
        <ns>   5Gi        RWO,ROX        Retain           Pending             slow           <unset>                          0s
        $ kubectl get storageclass <ns>
        NAME   PROVISIONER        RECLAIMPOLICY   VOLUMEBINDINGMODE   ALLOWVOLUMEEXPANSION   AGE
        <ns>   example.com/disk   Delete          Immediate           false                  0s
        $ kubectl get ingressclass <ns>
        NAME   CONTROLLER            PARAMETERS   AGE
        <ns>   example.com/ingress   <none>       0s
        $ kubectl get runtimeclass <ns>
        NAME   HANDLER   AGE
        <ns>   kata      0s
        $ kubectl get node <ns>
        NAME   STATUS    ROLES    AGE   VERSION
        <ns>   Unknown   worker   0s
        $ kubectl get validatingwebhookconfiguration <ns>
        NAME   WEBHOOKS   AGE
        <ns>   1          0s
        $ kubectl get csidriver <ns>
        NAME   ATTACHREQUIRED   PODINFOONMOUNT   STORAGECAPACITY   TOKENREQUESTS   REQUIRESREPUBLISH   MODES        AGE
        <ns>   false            false            false             <unset>         false               Persistent   0s
    """)
    terminal.output("kubectl delete -f cluster.yaml --wait=false")


def test_a_certificate_is_requested_and_approved(terminal):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": terminal.namespace},
        "spec": {
            "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    terminal.write("csr.json", json.dumps(body))
    terminal("""
        $ kubectl create -f csr.json
        certificatesigningrequest.certificates.k8s.io/<ns> created
        $ kubectl get csr <ns>
        NAME   AGE   SIGNERNAME                            REQUESTOR          REQUESTEDDURATION   CONDITION
        <ns>   0s    kubernetes.io/kube-apiserver-client   kubernetes-admin   <none>              Pending
        $ kubectl certificate approve <ns>
        certificatesigningrequest.certificates.k8s.io/<ns> approved
        $ kubectl get csr <ns> -o jsonpath='{.status.conditions[0].type} {.spec.groups}'
        Approved ["system:masters","system:authenticated"]
        $ kubectl certificate deny <ns> 2>&1 | grep -oE 'is already Approved|mutually exclusive'
        is already Approved
        $ kubectl delete csr <ns>
        certificatesigningrequest.certificates.k8s.io "<ns>" deleted
    """)
