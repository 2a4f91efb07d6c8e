"""kubectl and definitions themselves: in both API versions, established, refused, changed, and deleted with what they
define. Each test makes kinds of its own and takes them away again."""

from __future__ import annotations

import pytest
from defined_kinds import DEFINITIONS, defined, meanwhile

# The newest kubectl and the oldest; the one between them reads custom kinds in test_custom_reading.
pytestmark = [
    pytest.mark.peers,
    pytest.mark.parametrize("kubectl", ["1.36", "debian"], indirect=True, scope="session"),
]

BOAT = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: boats.{group}}}
spec:
  group: {group}
  scope: Cluster
  names: {{kind: Boat, plural: boats, shortNames: [bo]}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {schema}
"""
ANYTHING = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
CONDITIONS = "jsonpath='{range .status.conditions[*]}{.type}={.status} {.reason} {.message}{\"\\n\"}{end}'"


def boat(schema: str, group: str = "boats.example.com") -> str:
    return BOAT.format(schema=schema, group=group)


@pytest.fixture
def boats(terminal):
    """A terminal in whose server there are no boats at the end."""
    terminal.write("crd.yaml", boat(ANYTHING))
    yield terminal
    terminal.output("kubectl delete -f crd.yaml --ignore-not-found --timeout=20s")


def test_a_v1beta1_definition_is_served(terminal, request):
    if request.config.getoption("--kubeconfig") is not None:
        pytest.skip("other control planes have no v1beta1 definitions any more")
    for name in ("network-v1beta1.yaml", "network.yaml"):
        (terminal.directory / name).write_text((DEFINITIONS / name).read_text())
    warned = "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+; use apiextensions.k8s.io/v1 CustomResourceDefinition"
    terminal(f"""
        $ kubectl apply -f network-v1beta1.yaml
        Warning: {warned}
        customresourcedefinition.apiextensions.k8s.io/networks.samplecrd.k8s.io created
        $ kubectl apply -f network.yaml
        network.samplecrd.k8s.io/example-network created
        $ kubectl get networks
        NAME              AGE
        example-network   0s
        $ kubectl get network example-network -o jsonpath='{{.spec}}'
        {{"cidr":"192.168.0.0/16","gateway":"192.168.0.1"}}
        $ sed -i 's/192.168.0.1"/192.168.0.254"/' network.yaml
        $ kubectl apply -f network.yaml
        network.samplecrd.k8s.io/example-network configured
        $ kubectl get network -o custom-columns=NAME:.metadata.name,GATEWAY:.spec.gateway
        NAME              GATEWAY
        example-network   192.168.0.254
        $ kubectl get crd networks.samplecrd.k8s.io -o jsonpath='{{.spec.versions[*].name}} {{.spec.preserveUnknownFields}}'
        v1 true
        $ kubectl get customresourcedefinitions.v1beta1.apiextensions.k8s.io networks.samplecrd.k8s.io -o jsonpath='{{.spec.version}}' 2>/dev/null
        v1
        $ kubectl delete -f network.yaml
        network.samplecrd.k8s.io "example-network" deleted from <ns> namespace
        $ kubectl delete crd networks.samplecrd.k8s.io
        customresourcedefinition.apiextensions.k8s.io "networks.samplecrd.k8s.io" deleted
    """)


def test_an_invalid_definition_is_refused_with_all_errors(terminal, request):
    if request.config.getoption("--kubeconfig") is not None:
        pytest.skip("other control planes have no v1beta1 definitions any more")
    (terminal.directory / "vpc.yaml").write_text((DEFINITIONS / "vpc-v1beta1.yaml").read_text())
    terminal("""
        $ kubectl apply --validate=false -f vpc.yaml 2>&1 | grep -v Warning
        The CustomResourceDefinition "myresources.network" is invalid:
        * spec.group: Invalid value: "network": should be a domain with at least one dot
        * spec.shortNames: Forbidden: belongs in spec.names.shortNames
    """)


def test_a_definition_with_a_status(terminal, kubectl, kubectl_server):
    terminal.write(
        "main.yaml",
        """
        apiVersion: network.example.com/v1
        kind: Vpc
        metadata: {name: main}
        spec: {vpcname: main, cidrblock: 10.0.0.0/8, subnetnum: 4}
        status: {subnetnum: 4}
        """,
    )
    with defined(kubectl.path, kubectl_server, "vpc.yaml", "/openapi/v3/apis/network.example.com/v1"):
        terminal("""
            $ kubectl apply -f main.yaml
            vpc.network.example.com/main created
            $ kubectl get vpc main -o jsonpath='{.spec}{.status}'
            {"cidrblock":"10.0.0.0/8","subnetnum":4,"vpcname":"main"}
            $ kubectl get crd vpcs.network.example.com -o jsonpath='{.status.storedVersions} {.status.acceptedNames}'
            ["v1"] {"kind":"Vpc","listKind":"VpcList","plural":"vpcs","shortNames":["vpc"],"singular":"vpc"}
            $ kubectl delete vpc --all
            vpc.network.example.com "main" deleted from <ns> namespace
        """)


def test_an_established_definition_is_served(boats):
    boats.write("one.yaml", "apiVersion: boats.example.com/v1\nkind: Boat\nmetadata: {name: one}\nsail: white\n")
    boats(f"""
        $ kubectl get boats
        error: the server doesn't have a resource type "boats"
        [1]
        $ kubectl create -f crd.yaml
        customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com created
        $ kubectl wait --for=condition=Established crd/boats.boats.example.com --timeout=30s
        customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com condition met
        $ kubectl create -f one.yaml
        boat.boats.example.com/one created
        $ kubectl get bo one -o jsonpath={{.sail}}
        white
        $ kubectl get crd boats.boats.example.com -o {CONDITIONS}
        NamesAccepted=True NoConflicts no conflicts found
        Established=True InitialNamesAccepted the initial names have been accepted
        $ kubectl get crd boats.boats.example.com
        NAME                      CREATED AT
        boats.boats.example.com   <time>
        $ kubectl get boats -n nowhere -o name
        boat.boats.example.com/one
    """)


def test_a_kind_and_its_object_in_one_file_need_two_applies(boats):
    both = boat(ANYTHING) + "---\napiVersion: boats.example.com/v1\nkind: Boat\nmetadata: {name: one}\n"
    boats.write("both.yaml", both)
    shown = boats.run("kubectl apply -f both.yaml")
    assert shown.startswith("customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com created\n")
    assert 'no matches for kind "Boat" in version "boats.example.com/v1"' in shown
    boats("""
        $ kubectl wait --for=condition=Established crd/boats.boats.example.com --timeout=30s > /dev/null
        $ kubectl apply -f both.yaml
        customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com unchanged
        boat.boats.example.com/one created
    """)


def test_deleting_a_definition_deletes_its_objects(boats):
    boats.write("one.yaml", "apiVersion: boats.example.com/v1\nkind: Boat\nmetadata: {name: one}\n")
    boats.write("two.yaml", "apiVersion: boats.example.com/v1\nkind: Boat\nmetadata: {name: two}\n")
    boats.output("kubectl create -f crd.yaml && kubectl wait --for=condition=Established -f crd.yaml")
    boats.output("kubectl create -f one.yaml -f two.yaml")
    boats.output('kubectl patch boat one --type=merge -p \'{"metadata":{"finalizers":["boats.example.com/anchor"]}}\'')
    with meanwhile(boats, "kubectl", "delete", "-f", "crd.yaml"):
        boats.output("kubectl wait --for=condition=Terminating crd/boats.boats.example.com --timeout=30s")
        # Older kubectls call it a mistake to wait for what has gone already.
        boats.output(
            'kubectl wait --for=delete boat/two --timeout=30s || test -z "$(kubectl get boat two --ignore-not-found)"'
        )
        boats(f"""
            $ kubectl get crd boats.boats.example.com -o {CONDITIONS} | tail -1
            Terminating=True InstanceDeletionInProgress CustomResource deletion is in progress
            $ kubectl create -f two.yaml
            Error from server (Forbidden): error when creating "two.yaml": boats.boats.example.com "two" is forbidden: create not allowed while custom resource definition is terminating
            [1]
            $ kubectl patch boat one --type=merge -p '{{"metadata":{{"finalizers":null}}}}'
            boat.boats.example.com/one patched
        """)
    boats("""
        $ kubectl get crd boats.boats.example.com
        Error from server (NotFound): customresourcedefinitions.apiextensions.k8s.io "boats.boats.example.com" not found
        [1]
        $ kubectl get --raw /apis/boats.example.com/v1/boats
        Error from server (NotFound): the server could not find the requested resource
        [1]
        $ kubectl create -f crd.yaml
        customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com created
        $ kubectl wait --for=condition=Established -f crd.yaml > /dev/null
        $ kubectl get boats
        No resources found
    """)


def test_a_changed_schema_validates_later_writes(boats):
    strict = "{type: object, properties: {sail: {type: string, enum: [white, tan]}, crew: {type: integer, default: 3}}}"
    boats.write(
        "one.yaml", "apiVersion: boats.example.com/v1\nkind: Boat\nmetadata: {name: one}\nsail: green\nhull: oak\n"
    )
    boats.output("kubectl apply -f crd.yaml && kubectl wait --for=condition=Established -f crd.yaml")
    boats.output("kubectl create -f one.yaml")
    boats.write("crd.yaml", boat(strict))
    boats("""
        $ kubectl apply -f crd.yaml
        customresourcedefinition.apiextensions.k8s.io/boats.boats.example.com configured
        $ kubectl get boat one -o jsonpath='{.sail} {.hull} {.crew}'
        green  3
        $ kubectl label boat one port=home
        boat.boats.example.com/one labeled
        $ kubectl patch boat one --type=merge -p '{"sail":"black"}' 2>&1 | grep -o 'Unsupported.*'
        Unsupported value: "black": supported values: "white", "tan"
        $ kubectl patch boat one --type=merge -p '{"sail":"tan"}'
        boat.boats.example.com/one patched
    """)


# What may be wrong with a schema.
MISTAKES = {
    "untyped": "{type: object, properties: {spec: {properties: {a: {type: string}}}}}",
    "hidden-type": "{type: object, anyOf: [{properties: {b: {type: string}}}]}",
    "default": "{type: object, properties: {a: {type: integer, default: x}}}",
    "comparison": """
        type: object
        properties: {a: {type: integer}, b: {type: string}}
        x-kubernetes-validations: [{rule: self.a > self.b}]""",
    "cost": """
        type: object
        properties: {a: {type: array, items: {type: string}}}
        x-kubernetes-validations: [{rule: "self.a.all(x, self.a.all(y, x != y))"}]""",
}


def test_a_schema_is_validated_when_it_is_written(terminal):
    for name, schema in MISTAKES.items():
        terminal.write(f"{name}.yaml", boat(schema))
    terminal(r"""
        $ kubectl create -f untyped.yaml
        The CustomResourceDefinition "boats.boats.example.com" is invalid: spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields
        [1]
        $ kubectl create -f hidden-type.yaml
        The CustomResourceDefinition "boats.boats.example.com" is invalid:
        * spec.validation.openAPIV3Schema.anyOf[0].properties[b].type: Forbidden: must be empty to be structural
        * spec.validation.openAPIV3Schema.properties[b]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[b]
        [1]
        $ kubectl create -f default.yaml
        The CustomResourceDefinition "boats.boats.example.com" is invalid: spec.validation.openAPIV3Schema.properties[a].default: Invalid value: "string":  in body must be of type integer: "string"
        [1]
        $ kubectl create -f comparison.yaml
        The CustomResourceDefinition "boats.boats.example.com" is invalid: spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a \u003e self.b","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(int, string)'
         | self.a > self.b
         | .......^
        [1]
        $ kubectl create -f cost.yaml
        The CustomResourceDefinition "boats.boats.example.com" is invalid:
        * spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)
        * spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema
        * spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)
        [1]
    """)


def test_an_unknown_field_in_a_schema_is_reported(terminal):
    if terminal.minor < 25:
        pytest.skip("this kubectl does not ask the server to be strict")
    terminal.write("crd.yaml", boat("{type: object, propertiez: {}}"))
    terminal("""
        $ kubectl create -f crd.yaml
        Error from server (BadRequest): error when creating "crd.yaml": CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: strict decoding error: unknown field "spec.versions[0].schema.openAPIV3Schema.propertiez"
        [1]
    """)


def test_conflicting_names_are_not_accepted(boats):
    """A second kind with the same short name waits until the first lets it go."""
    other = (
        boat(ANYTHING).replace("boats.boats", "barges.boats").replace("Boat, plural: boats", "Barge, plural: barges")
    )
    boats.write("other.yaml", other)
    boats(f"""
        $ kubectl create -f crd.yaml > /dev/null && kubectl wait --for=condition=Established -f crd.yaml > /dev/null
        $ kubectl create -f other.yaml
        customresourcedefinition.apiextensions.k8s.io/barges.boats.example.com created
        $ kubectl wait --for=condition=NamesAccepted=false -f other.yaml --timeout=30s > /dev/null
        $ kubectl get crd barges.boats.example.com -o {CONDITIONS}
        NamesAccepted=False ShortNamesConflict "bo" is already in use
        Established=False NotAccepted not all names are accepted
        $ kubectl delete -f crd.yaml
        customresourcedefinition.apiextensions.k8s.io "boats.boats.example.com" deleted
        $ kubectl wait --for=condition=Established -f other.yaml --timeout=30s
        customresourcedefinition.apiextensions.k8s.io/barges.boats.example.com condition met
        $ kubectl delete -f other.yaml
        customresourcedefinition.apiextensions.k8s.io "barges.boats.example.com" deleted
    """)
