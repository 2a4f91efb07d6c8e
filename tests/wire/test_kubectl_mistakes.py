"""What a person in a hurry types, and the words kubectl finds for it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.peers


def test_a_resource_that_does_not_exist(terminal):
    terminal("""
        $ kubectl get gizmos
        error: the server doesn't have a resource type "gizmos"
        [1]
        $ kubectl delete gizmo a
        error: the server doesn't have a resource type "gizmo"
        [1]
        $ kubectl explain gizmos
        ...
        [1]
    """)


def test_a_kind_that_does_not_exist(terminal):
    terminal.write("gizmo.yaml", "apiVersion: example.com/v1\nkind: Gizmo\nmetadata: {name: a}\n")
    if terminal.minor >= 23:
        terminal("""
            $ kubectl apply -f gizmo.yaml
            error: resource mapping not found for name: "a" namespace: "" from "gizmo.yaml": no matches for kind "Gizmo" in version "example.com/v1"
            ensure CRDs are installed first
            [1]
        """)
    else:
        terminal("""
            $ kubectl apply -f gizmo.yaml
            error: unable to recognize "gizmo.yaml": no matches for kind "Gizmo" in version "example.com/v1"
            [1]
        """)
    terminal.write("old.yaml", "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n")
    assert 'no matches for kind "Deployment" in version "extensions/v1beta1"' in terminal.run(
        "kubectl create -f old.yaml"
    )


def test_a_field_that_does_not_exist(terminal):
    terminal.write(
        "web.yaml",
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replica: 3
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec:
              containers: [{name: web, imagee: nginx}]
        """,
    )
    if terminal.minor >= 25:
        terminal("""
            $ kubectl apply -f web.yaml
            Error from server (BadRequest): error when creating "web.yaml": Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.replica", unknown field "spec.template.spec.containers[0].imagee"
            [1]
            $ kubectl create -f web.yaml --validate=warn
            Warning: unknown field "spec.replica"
            Warning: unknown field "spec.template.spec.containers[0].imagee"
            The Deployment "web" is invalid: spec.template.spec.containers[0].image: Required value
            [1]
        """)
    else:
        terminal("""
            $ kubectl apply -f web.yaml
            error: error validating "web.yaml": error validating data: [ValidationError(Deployment.spec): unknown field "replica" in io.k8s.api.apps.v1.DeploymentSpec, ValidationError(Deployment.spec.template.spec.containers[0]): unknown field "imagee" in io.k8s.api.core.v1.Container]; if you choose to ignore these errors, turn validation off with --validate=false
            [1]
        """)


def test_a_field_of_the_wrong_type(terminal):
    terminal.write(
        "web.yaml",
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: three
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: nginx}]}
        """,
    )
    shown = terminal.run("kubectl create -f web.yaml --validate=false")
    assert shown == (
        'Error from server (BadRequest): error when creating "web.yaml": Deployment in version "v1" cannot be handled as a '
        "Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32\n[1]"
    )


def test_a_selector_that_does_not_match_its_template(terminal):
    terminal.write(
        "web.yaml",
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: other}}
            spec: {containers: [{name: web, image: nginx}]}
        """,
    )
    terminal("""
        $ kubectl create -f web.yaml
        The Deployment "web" is invalid: spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels`
        [1]
    """)


def test_several_mistakes_are_listed_together(terminal):
    terminal.write(
        "pod.yaml",
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: Bad_Name}
        spec:
          restartPolicy: Sometimes
          containers: [{name: main, image: a}, {name: main, image: b}]
        """,
    )
    terminal("""
        $ kubectl create -f pod.yaml
        The Pod "Bad_Name" is invalid:
        * metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        * spec.containers[1].name: Duplicate value: "main"
        * spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"
        [1]
    """)


def test_yaml_that_is_not_yaml(terminal):
    terminal.write("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n")
    shown = terminal.run("kubectl apply -f broken.yaml")
    assert "error parsing broken.yaml: error converting YAML to JSON" in shown
    assert terminal.run("kubectl apply -f missing.yaml").startswith('error: the path "missing.yaml" does not exist')
    terminal.write("nameless.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n")
    shown = terminal.run("kubectl create -f nameless.yaml")
    assert "name or generateName is required" in shown
    terminal.write("kindless.yaml", "apiVersion: v1\nmetadata: {name: a}\n")
    shown = terminal.run("kubectl create -f kindless.yaml")
    assert "kind not set" in shown or "Object 'Kind' is missing" in shown


def test_selectors_that_are_not_selectors(terminal):
    terminal("""
        $ kubectl get pods -l 'app in web'
        ...
        [1]
        $ kubectl get pods --field-selector spec.color=red
        Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", field selector "spec.color=red": field label not supported: spec.color
        [1]
        $ kubectl get pods -l 'app in (' 2>&1 | grep -c 'unable to parse requirement'
        1
    """)


def test_a_namespace_that_does_not_exist(terminal):
    terminal.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n")
    terminal("""
        $ kubectl create -f a.yaml
        Error from server (NotFound): error when creating "a.yaml": namespaces "nowhere" not found
        [1]
        $ kubectl create -f a.yaml -n elsewhere
        error: the namespace from the provided object "nowhere" does not match the namespace "elsewhere". You must pass '--namespace=nowhere' to perform this operation.
        [1]
        $ kubectl run p --image=nginx -n nowhere
        Error from server (NotFound): namespaces "nowhere" not found
        [1]
    """)


def test_immutable_fields(terminal):
    terminal("""
        $ kubectl create deployment web --image=nginx
        deployment.apps/web created
        $ kubectl patch deployment web --type=merge -p '{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}}}}}'
        The Deployment "web" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable
        [1]
        $ kubectl create secret generic s --type=a
        secret/s created
        $ kubectl patch secret s -p '{"type":"b"}'
        The Secret "s" is invalid: type: Invalid value: "b": field is immutable
        [1]
        $ kubectl create configmap fixed --from-literal=a=1
        configmap/fixed created
        $ kubectl patch configmap fixed -p '{"immutable":true}'
        configmap/fixed patched
        $ kubectl patch configmap fixed -p '{"data":{"a":"2"}}'
        The ConfigMap "fixed" is invalid: data: Forbidden: field is immutable when `immutable` is set
        [1]
    """)


def test_a_patch_that_is_not_one(terminal):
    terminal("""
        $ kubectl create configmap a --from-literal=x=1
        configmap/a created
        $ kubectl patch configmap a --type=merge -p '{"data":{"x":1}}' 2>&1 | grep -oE '^The request is invalid: patch: |json: .*'
        The request is invalid: patch:
        json: cannot unmarshal number into Go struct field ConfigMap.data of type string
        $ kubectl patch configmap a --type=json -p '[{"op":"remove","path":"/data/nope"}]'
        The request is invalid: the server rejected our request due to an error in our request
        [1]
        $ kubectl patch configmap a --type=merge -p '{"metadata":{"name":"b"}}'
        Error from server (BadRequest): the name of the object (b) does not match the name on the URL (a)
        [1]
        $ kubectl patch configmap nope -p '{}'
        Error from server (NotFound): configmaps "nope" not found
        [1]
    """)


def test_names_that_are_not_names(terminal):
    terminal("""
        $ kubectl create namespace Team_A
        The Namespace "Team_A" is invalid: metadata.name: Invalid value: "Team_A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        [1]
        $ kubectl create service clusterip web.a --tcp=80
        error: failed to create ClusterIP service: Service "web.a" is invalid: metadata.name: Invalid value: "web.a": must not contain dots
        [1]
        $ kubectl create service clusterip 1web --tcp=80
        service/1web created
    """)


def test_a_token_for_an_account_that_does_not_exist(terminal):
    if terminal.minor < 24:
        pytest.skip("this kubectl has no create token")
    terminal("""
        $ kubectl create token nope
        error: failed to create token: serviceaccounts "nope" not found
        [1]
    """)
