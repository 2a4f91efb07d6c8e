"""The generated classes say on the wire exactly what was put into them, and read back what servers send."""

import json
import subprocess
import sys

import msgspec
import pytest

from generate.types import UnknownShape, generate_types, place_of, python_name
from kapi.api import builtin
from kapi.api.builtin import (
    admissionregistration_v1,
    apiextensions_v1,
    apps_v1,
    batch_v1,
    core_v1,
    meta_v1,
    resource_v1,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "uid": "0b5e6f3c-1c0a-4d0e-9b5e-1c0a4d0e9b5e",
        "resourceVersion": "184467440737095516",
        "generation": 2**53 + 1,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web", "empty": ""},
        "annotations": {},
        "finalizers": ["example.com/guard"],
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "blockOwnerDeletion": True}
        ],
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Apply",
                "apiVersion": "v1",
                "time": "2026-01-02T03:04:05Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}},
            }
        ],
    },
    "spec": {
        "hostIPC": False,
        "hostPID": True,
        "setHostnameAsFQDN": False,
        "containers": [
            {
                "name": "web",
                "image": "example.com/web:1",
                "args": [],
                "ports": [{"containerPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "500m", "memory": 1073741824, "example.com/odd": 0.5}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTPS"}},
                "readinessProbe": {"tcpSocket": {"port": 8080}},
                "securityContext": {},
                "env": [{"name": "EMPTY", "value": ""}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 0}],
    },
    "status": {"hostIP": "10.0.0.1", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}], "phase": "Running"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]},
    },
    "status": {
        "conditions": [
            {"type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "é\n"}
        ]
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {
                            "size": {"x-kubernetes-int-or-string": True, "default": 3},
                            "$ref": {"$ref": "#/elsewhere"},
                            "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                            "closed": {"type": "object", "additionalProperties": False},
                            "ratio": {"type": "number", "maximum": 1.5},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize("obj", [POD, DEPLOYMENT, CRD], ids=lambda obj: obj["kind"])
def test_objects_round_trip(obj):
    group, _, version = obj["apiVersion"].rpartition("/")
    cls = builtin.load(group, version, obj["kind"])
    decoded = msgspec.json.decode(json.dumps(obj), type=cls)
    assert json.loads(msgspec.json.encode(decoded)) == obj


@pytest.mark.parametrize("gvk", sorted(builtin.KINDS), ids="/".join)
def test_a_new_object_has_api_version_and_kind_and_empty_metadata(gvk):
    cls = builtin.load(*gvk)
    group, version, kind = gvk
    assert cls.gvk == gvk
    decoded = msgspec.json.decode(b"{}", type=cls)
    assert decoded == cls()
    expected = {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
    if isinstance(getattr(decoded, "metadata", None), meta_v1.ObjectMeta):
        expected["metadata"] = {}
    assert json.loads(msgspec.json.encode(decoded)) == ({} if kind == "WatchEvent" else expected)


def test_the_metadata_of_an_object_is_never_none_to_type_checkers():
    """A program that reads a Pod from a server need not ask whether it has metadata; a template may have none."""
    assert core_v1.Pod.__annotations__["metadata"] == "meta_v1.ObjectMeta"
    assert core_v1.PodTemplateSpec.__annotations__["metadata"] == "meta_v1.ObjectMeta | None"
    assert core_v1.Pod().metadata is not core_v1.Pod().metadata


def test_objects_are_built_with_python_names():
    pod = core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="web", generate_name="web-"),
        spec=core_v1.PodSpec(host_ipc=True, containers=[core_v1.Container(name="web", env_from=[])]),
    )
    assert json.loads(msgspec.json.encode(pod)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "generateName": "web-"},
        "spec": {"hostIPC": True, "containers": [{"name": "web", "envFrom": []}]},
    }


def test_names_that_are_python_keywords_get_an_underscore():
    assert json.loads(msgspec.json.encode(meta_v1.ListMeta(continue_="token"))) == {"continue": "token"}
    attribute = resource_v1.DeviceAttribute(bool_=True, int_=3, ints=[1])
    assert json.loads(msgspec.json.encode(attribute)) == {"bool": True, "int": 3, "ints": [1]}
    schema = apiextensions_v1.JSONSchemaProps(not_=apiextensions_v1.JSONSchemaProps(type="string"))
    assert json.loads(msgspec.json.encode(schema)) == {"not": {"type": "string"}}


def test_options_of_every_group_belong_to_the_core_group():
    options = meta_v1.DeleteOptions(propagation_policy="Foreground")
    assert json.loads(msgspec.json.encode(options)) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
    }


def test_a_null_means_absent():
    job = msgspec.json.decode(b'{"metadata":{"creationTimestamp":null},"spec":null}', type=batch_v1.Job)
    assert job == batch_v1.Job(metadata=meta_v1.ObjectMeta())


def test_a_value_of_the_wrong_type_is_refused_with_its_path():
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.replicas"):
        msgspec.json.decode(b'{"spec":{"replicas":"three"}}', type=apps_v1.Deployment)


def test_references_between_modules_are_resolved():
    template = apps_v1.DeploymentSpec(template=core_v1.PodTemplateSpec(spec=core_v1.PodSpec(node_name="n")))
    assert msgspec.json.decode(msgspec.json.encode(template), type=apps_v1.DeploymentSpec) == template
    assert admissionregistration_v1.ParamRef(selector=meta_v1.LabelSelector(match_labels={})).selector is not None


def test_alpha_and_beta_versions_have_no_class():
    assert not [gvk for gvk in builtin.KINDS if "alpha" in gvk[1] or "beta" in gvk[1]]
    assert place_of("io.k8s.api.resource.v1beta1.ResourceClaim") is None
    with pytest.raises(LookupError, match="ResourceClaim"):
        builtin.load("resource.k8s.io", "v1beta1", "ResourceClaim")


def test_the_index_imports_modules_lazily():
    program = (
        "import sys; from kapi.api import builtin; "
        "loaded = lambda: [m for m in sys.modules if m.startswith('kapi.api.builtin.')]; "
        "assert loaded() == [], loaded(); builtin.load('coordination.k8s.io', 'v1', 'Lease'); "
        "assert sorted(loaded()) == ['kapi.api.builtin.coordination_v1', 'kapi.api.builtin.meta_v1'], loaded()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("apiVersion", "api_version"),
        ("podIPs", "pod_ips"),
        ("hostIPC", "host_ipc"),
        ("openAPIV3Schema", "open_api_v3_schema"),
        ("nonResourceURLs", "non_resource_urls"),
        ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ("insecureSkipTLSVerify", "insecure_skip_tls_verify"),
        ("fieldsV1", "fields_v1"),
        ("stubPKCS10Request", "stub_pkcs10_request"),
        ("x-kubernetes-list-map-keys", "x_kubernetes_list_map_keys"),
        ("$schema", "schema"),
        ("from", "from_"),
        ("int", "int_"),
    ],
)
def test_wire_names_become_python_names(wire, name):
    assert python_name(wire) == name


def test_two_fields_with_one_python_name_stop_the_generator(tmp_path):
    fields = {"podIP": {"type": "string"}, "podIp": {"type": "string"}}
    with pytest.raises(UnknownShape, match=r"'podIP' and 'podIp'"):
        generate_types({"io.k8s.api.core.v1.Odd": {"type": "object", "properties": fields}}, tmp_path)


def test_an_unsupported_schema_shape_stops_the_generator(tmp_path):
    fields = {"either": {"type": ["string", "integer"]}}
    with pytest.raises(UnknownShape, match="no Python type"):
        generate_types({"io.k8s.api.core.v1.Odd": {"type": "object", "properties": fields}}, tmp_path)
