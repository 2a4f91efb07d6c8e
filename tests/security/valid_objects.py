"""One valid object of every stored kind, as small as its kind allows."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from every_route import STORED, collection, name_of

POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTOR = {"matchLabels": {"a": "b"}}
WORKLOAD = {"selector": SELECTOR, "template": TEMPLATE}
JOB = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
DEFINITION = {
    "group": "g.example.com",
    "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"},
    "versions": [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ],
}
MUTATION = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/x'}]"}}
MATCH = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}


def certificate_request():
    """A request for a client certificate, in PEM and base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode()


FIELDS = {
    "apiservices": {"spec": {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
    "csidrivers": {"spec": {}},
    "csinodes": {"spec": {"drivers": []}},
    "csistoragecapacities": {"storageClassName": "s"},
    "customresourcedefinitions": {"spec": DEFINITION},
    "daemonsets": {"spec": WORKLOAD},
    "deployments": {"spec": WORKLOAD},
    "deviceclasses": {"spec": {}},
    "endpointslices": {"addressType": "IPv4", "endpoints": []},
    "horizontalpodautoscalers": {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 2}},
    "ingressclasses": {"spec": {"controller": "example.com/c"}},
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "jobs": {"spec": JOB},
    "mutatingwebhookconfigurations": {"webhooks": [HOOK]},
    "validatingwebhookconfigurations": {"webhooks": [HOOK]},
    "validatingadmissionpolicies": {"spec": {"validations": [{"expression": "true"}], "matchConstraints": MATCH}},
    "validatingadmissionpolicybindings": {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
    "mutatingadmissionpolicies": {"spec": {"mutations": [MUTATION], "matchConstraints": MATCH, "reinvocationPolicy": "Never"}},
    "mutatingadmissionpolicybindings": {"spec": {"policyName": "p"}},
    "networkpolicies": {"spec": {"podSelector": {}}},
    "persistentvolumeclaims": {"spec": CLAIM},
    "persistentvolumes": {"spec": VOLUME},
    "poddisruptionbudgets": {"spec": {"selector": SELECTOR, "minAvailable": 1}},
    "pods": {"spec": POD},
    "podtemplates": {"template": TEMPLATE},
    "priorityclasses": {"value": 1},
    "replicasets": {"spec": WORKLOAD},
    "replicationcontrollers": {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    "rolebindings": {"roleRef": ROLE_REF},
    "clusterrolebindings": {"roleRef": ROLE_REF},
    "runtimeclasses": {"handler": "h"},
    "services": {"spec": {"ports": [{"port": 80}]}},
    "statefulsets": {"spec": {**WORKLOAD, "serviceName": "s"}},
    "storageclasses": {"provisioner": "example.com/p"},
    "volumeattachments": {"spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    "volumeattributesclasses": {"driverName": "example.com", "parameters": {"a": "b"}},
    "controllerrevisions": {"data": {"a": 1}, "revision": 1},
    "certificatesigningrequests": {"spec": {"request": certificate_request(), "signerName": "example.com/s", "usages": ["client auth"]}},
    "flowschemas": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
    "ipaddresses": {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}},
    "prioritylevelconfigurations": {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
    "resourceclaims": {"spec": {}},
    "resourceslices": {"spec": {"driver": "example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}},
    "servicecidrs": {"spec": {"cidrs": ["10.1.0.0/16"]}},
    "resourceclaimtemplates": {"spec": {"spec": {}}},
}  # fmt: skip


def valid(resource):
    """An object of a resource that the server accepts."""
    return {"metadata": {"name": name_of(resource)}, **FIELDS.get(resource.resource, {})}


async def make(api, resource):
    """Create the object; where two versions or groups share their objects, through the one that comes first."""
    first = next(one for one in STORED if one.store.prefix == resource.store.prefix)
    return await api.made(collection(first), valid(first))


async def make_all(api):
    """Create an object of every kind."""
    for prefix in dict.fromkeys(resource.store.prefix for resource in STORED):
        await make(api, next(resource for resource in STORED if resource.store.prefix == prefix))
