"""kubectl on a custom kind, reading: its names, columns, versions, schema, scale, selectors, watches."""

from __future__ import annotations

import json
import subprocess

import pytest
from defined_kinds import defined

pytestmark = pytest.mark.peers

FLEETS = """
    apiVersion: harbour.example.com/v1
    kind: Fleet
    metadata: {name: north, labels: {sea: cold}}
    spec: {flag: blue, ships: 3, berths: [{name: quay, depth: 9}]}
    ---
    apiVersion: harbour.example.com/v1
    kind: Fleet
    metadata: {name: south, labels: {sea: warm}}
    spec: {flag: red}
"""


@pytest.fixture(scope="module", autouse=True)
def _defined(kubectl, kubectl_server):
    with defined(kubectl.path, kubectl_server, "fleet.yaml", "/openapi/v3/apis/harbour.example.com/v1"):
        yield


@pytest.fixture
def fleets(terminal):
    terminal.write("fleets.yaml", FLEETS)
    terminal.output("kubectl create -f fleets.yaml")
    return terminal


def test_every_name_of_a_kind_finds_it(fleets):
    fleets("""
        $ kubectl get fleets
        NAME    SHIPS   AFLOAT   READY   AGE
        north   3                        0s
        south   1                        0s
        $ kubectl get fleet north
        NAME    SHIPS   AFLOAT   READY   AGE
        north   3                        0s
        $ kubectl get fl/south -o name
        fleet.harbour.example.com/south
        $ kubectl get fleets.harbour.example.com -o name
        fleet.harbour.example.com/north
        fleet.harbour.example.com/south
        $ kubectl get harbour -o name
        fleet.harbour.example.com/north
        fleet.harbour.example.com/south
        $ kubectl get all
        NAME                              SHIPS   AFLOAT   READY   AGE
        fleet.harbour.example.com/north   3                        0s
        fleet.harbour.example.com/south   1                        0s
        $ kubectl get fleet nope
        Error from server (NotFound): fleets.harbour.example.com "nope" not found
        [1]
    """)


def test_columns_come_from_the_definition(fleets):
    fleets("""
        $ kubectl get fleets -o wide
        NAME    SHIPS   AFLOAT   READY   FLAG   AGE
        north   3                        blue   0s
        south   1                        red    0s
        $ kubectl get fleets -A -L sea --field-selector metadata.namespace=<ns>
        NAMESPACE   NAME    SHIPS   AFLOAT   READY   AGE   SEA
        <ns>        north   3                        0s    cold
        <ns>        south   1                        0s    warm
        $ kubectl get fleets --sort-by=.spec.ships --no-headers
        south   1                        0s
        north   3                        0s
    """)
    if fleets.minor >= 24:
        fleets("""
            $ kubectl patch fleet north --subresource=status --type=merge -p '{"status":{"afloat":2,"conditions":[{"type":"Ready","status":"True"}]}}'
            fleet.harbour.example.com/north patched
            $ kubectl get fleet north
            NAME    SHIPS   AFLOAT   READY   AGE
            north   3       2        True    0s
        """)


def test_objects_are_shown_with_defaults(fleets):
    fleets("""
        $ kubectl get fleet south -o yaml | sed '/^  managedFields:/,/^  name:/{/^  name:/!d}'
        apiVersion: harbour.example.com/v1
        kind: Fleet
        metadata:
          creationTimestamp: "<time>"
          generation: 1
          labels:
            sea: warm
          name: south
          namespace: <ns>
          resourceVersion: <rv>
          uid: <uid>
        spec:
          flag: red
          ships: 1
        $ kubectl describe fleet north | sed '/Managed Fields:/,/^Spec:/{/^Spec:/!d}; /Self Link/d; /Resource Version/d'
        Name:         north
        Namespace:    <ns>
        Labels:       sea=cold
        Annotations:  <none>
        API Version:  harbour.example.com/v1
        Kind:         Fleet
        Metadata:
        ...
        Spec:
          Berths:
            Depth:  9
            Name:   quay
          Flag:     blue
          Ships:    3
        Events:     <none>
    """)


def test_each_version_has_its_own_view(fleets):
    fleets("""
        $ kubectl get fleets.v1.harbour.example.com north
        NAME    SHIPS   AFLOAT   READY   AGE
        north   3                        0s
        $ kubectl get fleets.v1beta1.harbour.example.com
        Warning: harbour.example.com/v1beta1 Fleet is going away; use v1
        NAME    FLAG
        north   blue
        south   red
        $ kubectl get fleet.v1beta1.harbour.example.com north -o jsonpath='{.apiVersion} {.spec.flag}' 2>/dev/null
        harbour.example.com/v1beta1 blue
    """)
    fleets.write(
        "west.yaml",
        """
        apiVersion: harbour.example.com/v1beta1
        kind: Fleet
        metadata: {name: west}
        spec: {flag: red, ships: 7}
        """,
    )
    fleets("""
        $ kubectl create -f west.yaml
        Warning: harbour.example.com/v1beta1 Fleet is going away; use v1
        fleet.harbour.example.com/west created
        $ kubectl get fleet west -o jsonpath='{.apiVersion} {.spec.ships}'
        harbour.example.com/v1 7
    """)


def test_the_server_lists_what_it_serves(terminal):
    if terminal.minor < 21:
        terminal("""
            $ kubectl api-resources --api-group=harbour.example.com
            NAME     SHORTNAMES   APIVERSION               NAMESPACED   KIND
            fleets   fl           harbour.example.com/v1   true         Fleet
            $ kubectl api-resources --api-group=harbour.example.com -o wide --no-headers
            fleets   fl   harbour.example.com/v1   true   Fleet   [delete deletecollection get list patch create update watch]
        """)
    elif terminal.minor >= 26:
        terminal("""
            $ kubectl api-resources --api-group=harbour.example.com
            NAME     SHORTNAMES   APIVERSION               NAMESPACED   KIND
            fleets   fl           harbour.example.com/v1   true         Fleet
            $ kubectl api-resources --api-group=harbour.example.com -o wide --no-headers
            fleets   fl   harbour.example.com/v1   true   Fleet   delete,deletecollection,get,list,patch,create,update,watch   all,harbour
            $ kubectl api-resources --categories=harbour -o name
            fleets.harbour.example.com
        """)
    terminal("""
        $ kubectl api-versions | grep harbour
        harbour.example.com/v1
        harbour.example.com/v1beta1
    """)


def test_explain_reads_the_schema(terminal):
    if terminal.minor < 27:
        _old_explain(terminal)
        return
    terminal("""
        $ kubectl explain fleet.spec
        GROUP:      harbour.example.com
        KIND:       Fleet
        VERSION:    v1

        FIELD: spec <Object>


        DESCRIPTION:
            What the fleet should be.

        FIELDS:
          berths\t<[]Object>
            Where it may moor.

          flag\t<string> -required-
          enum: blue, red
            Under which flag it sails.

          orders\t<Object>
            What the captains were told.

          reserve\t<integer>
            <no description>

          ships\t<integer>
            How many ships.
        $ kubectl explain fleet.spec --recursive
        ...
        FIELDS:
          berths\t<[]Object>
            depth\t<integer>
            free\t<boolean>
            name\t<string> -required-
          flag\t<string> -required-
          enum: blue, red
          orders\t<Object>
          reserve\t<integer>
          ships\t<integer>
        $ kubectl explain fleet | grep -A1 '^  [a-z]'
          apiVersion\t<string>
            APIVersion defines the versioned schema of this representation of an object.
        --
          kind\t<string>
            Kind is a string value representing the REST resource this object
        --
          metadata\t<ObjectMeta>
            Standard object's metadata. More info:
        --
          spec\t<Object> -required-
            What the fleet should be.
        --
          status\t<Object>
            <no description>
        $ kubectl explain fleet --api-version=harbour.example.com/v1beta1 | grep -A1 DESCRIPTION
        DESCRIPTION:
            Ships, as they were once described.
        $ kubectl explain fleet.spec.nope
        GROUP:      harbour.example.com
        KIND:       Fleet
        VERSION:    v1

        error: field "nope" does not exist
        [1]
    """)


def _old_explain(terminal):
    """Before it read OpenAPI v3, kubectl had another form for it."""
    terminal("""
        $ kubectl explain fleet.spec
        KIND:     Fleet
        VERSION:  harbour.example.com/v1

        RESOURCE: spec <Object>

        DESCRIPTION:
             What the fleet should be.

        FIELDS:
           berths\t<[]Object>
             Where it may moor.

           flag\t<string> -required-
             Under which flag it sails.

           orders\t<>
             What the captains were told.

           reserve\t<integer>

           ships\t<integer>
             How many ships.
        $ kubectl explain fleet.spec --recursive
        ...
        FIELDS:
           berths\t<[]Object>
              depth\t<integer>
              free\t<boolean>
              name\t<string>
           flag\t<string>
           orders\t<>
           reserve\t<integer>
           ships\t<integer>
    """)


def test_objects_are_selected_by_labels_and_declared_fields(fleets):
    fleets("""
        $ kubectl get fleets -l sea=warm -o name
        fleet.harbour.example.com/south
        $ kubectl get fleets --field-selector spec.flag=blue -o name
        fleet.harbour.example.com/north
        $ kubectl get fleets --field-selector spec.flag!=blue,metadata.name=north -o name
        $ kubectl get fleets --field-selector spec.ships=3
        Error from server (BadRequest): Unable to find "harbour.example.com/v1, Resource=fleets" that match label selector "", field selector "spec.ships=3": field label not supported: spec.ships
        [1]
        $ kubectl get fleets --chunk-size=1 -o name
        fleet.harbour.example.com/north
        fleet.harbour.example.com/south
    """)


def test_a_scale_is_what_an_autoscaler_reads(fleets):
    path = "/apis/harbour.example.com/v1/namespaces/<ns>/fleets/north/scale".replace("<ns>", fleets.namespace)
    scale = json.loads(fleets.output(f"kubectl get --raw {path}"))
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 0})
    assert scale["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}
    if fleets.minor < 24:
        return
    fleets("""
        $ kubectl patch fleet north --subresource=status --type=merge -p '{"status":{"afloat":2,"selector":"fleet=north"}}'
        fleet.harbour.example.com/north patched
        $ kubectl get fleet north --subresource=scale
        NAME    DESIRED   AVAILABLE   AGE
        north   3         2           0s
    """)
    scale = json.loads(fleets.output(f"kubectl get --raw {path}"))
    assert scale["status"] == {"replicas": 2, "selector": "fleet=north"}


def test_a_watch_prints_rows_of_the_kind(fleets):
    with subprocess.Popen(
        ["kubectl", "get", "fleets", "-w", "--no-headers", "--field-selector=spec.flag=blue"],
        env=fleets.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            lines = watching.stdout
            assert lines is not None
            assert lines.readline().split()[:2] == ["north", "3"]
            fleets.output('kubectl patch fleet south --type=merge -p \'{"spec":{"ships":9}}\'')
            fleets.output('kubectl patch fleet north --type=merge -p \'{"spec":{"ships":4}}\'')
            assert lines.readline().split()[:2] == ["north", "4"]
            fleets.output("kubectl delete fleet north")
            assert lines.readline().split()[:2] == ["north", "4"]
        finally:
            watching.terminate()
