"""kubectl on a custom kind, writing: patches, scales, applies, conflicts, and what the schema and its rules refuse."""

from __future__ import annotations

import json

import pytest
from defined_kinds import defined, meanwhile

# The newest kubectl and the oldest; the one between them reads custom kinds in test_custom_reading.
pytestmark = [
    pytest.mark.peers,
    pytest.mark.parametrize("kubectl", ["1.36", "debian"], indirect=True, scope="session"),
]

NORTH = """
    apiVersion: harbour.example.com/v1
    kind: Fleet
    metadata: {name: north}
    spec: {flag: blue, ships: 3, berths: [{name: quay, depth: 9}]}
"""
SPEC = "kubectl get fleet north -o jsonpath={.spec}"


def fleet(spec: str, name: str = "north") -> str:
    return f"apiVersion: harbour.example.com/v1\nkind: Fleet\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


@pytest.fixture(scope="module", autouse=True)
def _defined(kubectl, kubectl_server):
    with defined(kubectl.path, kubectl_server, "fleet.yaml", "/openapi/v3/apis/harbour.example.com/v1"):
        yield


@pytest.fixture
def north(terminal):
    terminal.write("north.yaml", NORTH)
    terminal.output("kubectl apply -f north.yaml")
    return terminal


def test_apply_is_created_configured_or_unchanged(terminal):
    terminal.write("north.yaml", NORTH)
    terminal(f"""
        $ kubectl apply -f north.yaml
        fleet.harbour.example.com/north created
        $ kubectl apply -f north.yaml
        fleet.harbour.example.com/north unchanged
        $ kubectl patch fleet north --type=merge -p '{{"spec":{{"orders":{{"any":["thing",1]}}}}}}'
        fleet.harbour.example.com/north patched
        $ sed -i 's/ships: 3, //' north.yaml
        $ kubectl diff -f north.yaml | grep -E '^[-+]  (generation|ships|flag):'
        -  generation: 2
        +  generation: 3
        -  ships: 3
        +  ships: 1
        $ kubectl apply -f north.yaml
        fleet.harbour.example.com/north configured
        $ {SPEC}
        {{"berths":[{{"depth":9,"name":"quay"}}],"flag":"blue","orders":{{"any":["thing",1]}},"ships":1}}
        $ kubectl diff -f north.yaml
        $ kubectl delete -f north.yaml
        fleet.harbour.example.com "north" deleted from <ns> namespace
    """)


def test_json_and_merge_patches_apply_and_strategic_merge_is_refused(north):
    before = (
        "error: application/strategic-merge-patch+json is not supported by harbour.example.com/v1, Kind=Fleet"
        if north.minor >= 21
        else "Error from server (UnsupportedMediaType)"
    )
    assert north.run('kubectl patch fleet north -p \'{"spec":{"ships":2}}\'') == (
        f"{before}: the body of the request was in an unknown format - accepted media types include:"
        " application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml\n[1]"
    )
    north(f"""
        $ kubectl patch fleet north --type=merge -p '{{"spec":{{"ships":2,"berths":[{{"name":"pier"}}]}}}}'
        fleet.harbour.example.com/north patched
        $ {SPEC}
        {{"berths":[{{"name":"pier"}}],"flag":"blue","ships":2}}
        $ kubectl patch fleet north --type=merge -p '{{"spec":{{"ships":2}}}}'
        fleet.harbour.example.com/north patched (no change)
        $ kubectl patch fleet north --type=json -p '[{{"op":"test","path":"/spec/flag","value":"blue"}},{{"op":"add","path":"/spec/berths/-","value":{{"name":"quay"}}}}]'
        fleet.harbour.example.com/north patched
        $ {SPEC}
        {{"berths":[{{"name":"pier"}},{{"name":"quay"}}],"flag":"blue","ships":2}}
        $ kubectl patch fleet north --type=json -p '[{{"op":"test","path":"/spec/flag","value":"red"}}]'
        The request is invalid: the server rejected our request due to an error in our request
        [1]
        $ kubectl label fleet north sea=cold
        fleet.harbour.example.com/north labeled
        $ kubectl annotate fleet north note=calm
        fleet.harbour.example.com/north annotated
        $ kubectl get fleet north -o jsonpath='{{.metadata.generation}}'
        3
    """)


def test_a_replace_with_a_stale_resource_version_is_refused(north):
    north("""
        $ KUBE_EDITOR="sed -i 's/ships: 3/ships: 8/'" kubectl edit fleet north
        fleet.harbour.example.com/north edited
        $ kubectl get fleet north -o json > seen.json
        $ kubectl label fleet north sea=cold
        fleet.harbour.example.com/north labeled
        $ kubectl replace -f seen.json
        Error from server (Conflict): error when replacing "seen.json": Operation cannot be fulfilled on fleets.harbour.example.com "north": the object has been modified; please apply your changes to the latest version and try again
        [1]
        $ kubectl get fleet north -o json | sed 's/"ships": 8/"ships": 5/' > seen.json
        $ kubectl replace -f seen.json
        fleet.harbour.example.com/north replaced
        $ kubectl replace -f north.yaml
        fleet.harbour.example.com/north replaced
        $ kubectl get fleet north -o jsonpath='{.spec.ships} {.metadata.generation}'
        3 4
    """)


def test_kubectl_scale_works_on_a_custom_resource(north):
    north("""
        $ kubectl scale fleet north --replicas=5
        fleet.harbour.example.com/north scaled
        $ kubectl scale fl/north --replicas=7 --current-replicas=1
        error: Expected replicas to be 1, was 5
        [1]
        $ kubectl get fleet north -o jsonpath={.spec.ships}
        5
        $ kubectl scale fleet north --replicas=1000
        The Fleet "north" is invalid: spec.ships: Invalid value: 1000: spec.ships in body should be less than or equal to 100
        [1]
        $ kubectl autoscale fleet north --min=1 --max=5
        horizontalpodautoscaler.autoscaling/north autoscaled
        $ kubectl get hpa north -o jsonpath={.spec.scaleTargetRef}
        {"apiVersion":"harbour.example.com/v1","kind":"Fleet","name":"north"}
    """)


def test_the_status_subresource_is_written_separately(north):
    """A write of the object leaves the status alone, and the other way round."""
    if north.minor < 24:
        pytest.skip("this kubectl knows no --subresource")
    north("""
        $ kubectl patch fleet north --type=merge -p '{"status":{"afloat":1}}'
        fleet.harbour.example.com/north patched (no change)
        $ kubectl patch fleet north --subresource=status --type=merge -p '{"spec":{"ships":9},"status":{"afloat":2,"lost":1}}'
        Warning: unknown field "status.lost"
        fleet.harbour.example.com/north patched
        $ kubectl get fleet north -o jsonpath='{.spec.ships} {.status} {.metadata.generation}'
        3 {"afloat":2} 1
        $ kubectl wait --for=jsonpath='{.status.afloat}'=2 fleet/north --timeout=30s
        fleet.harbour.example.com/north condition met
    """)
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    with meanwhile(north, "kubectl", "wait", "--for=condition=Ready", "fleet/north", "--timeout=30s"):
        north.output(f"kubectl patch fleet north --subresource=status --type=merge -p '{ready}'")


def test_field_managers_share_a_list_by_its_key(terminal):
    terminal.write("one.yaml", fleet("flag: blue, ships: 1, berths: [{name: quay, depth: 9}]"))
    terminal.write("two.yaml", fleet("flag: blue, berths: [{name: pier, depth: 4}, {name: quay, free: true}]"))
    terminal.write("clash.yaml", fleet("flag: blue, berths: [{name: quay, depth: 5}]"))
    terminal(f"""
        $ kubectl apply --server-side --field-manager=one -f one.yaml
        fleet.harbour.example.com/north serverside-applied
        $ kubectl apply --server-side --field-manager=two -f two.yaml
        fleet.harbour.example.com/north serverside-applied
        $ {SPEC}
        {{"berths":[{{"depth":4,"name":"pier"}},{{"depth":9,"free":true,"name":"quay"}}],"flag":"blue","ships":1}}
        $ kubectl apply --server-side --field-manager=two -f clash.yaml 2>&1 | head -1
        error: Apply failed with 1 conflict: conflict with "one": .spec.berths[name="quay"].depth
        $ kubectl scale fleet north --replicas=2
        fleet.harbour.example.com/north scaled
        $ sed -i 's/flag: blue/flag: blue, ships: 3/' clash.yaml
    """)
    shown = terminal.run("kubectl apply --server-side --field-manager=two -f clash.yaml")
    assert '- .spec.berths[name="quay"].depth' in shown
    assert 'conflicts with "kubectl" with subresource "scale" using harbour.example.com/v1:\n- .spec.ships' in shown
    terminal(f"""
        $ kubectl apply --server-side --field-manager=two --force-conflicts -f clash.yaml
        fleet.harbour.example.com/north serverside-applied
        $ {SPEC}
        {{"berths":[{{"depth":5,"name":"quay"}}],"flag":"blue","ships":3}}
    """)


def test_unknown_fields_follow_the_validate_flag(terminal):
    terminal.write("bad.yaml", fleet("flag: blue, shipz: 3, berths: [{name: quay, deep: 9}]"))
    if terminal.minor >= 25:
        refused = (
            'Error from server (BadRequest): error when creating "bad.yaml": Fleet in version "v1" cannot be handled as a'
            ' Fleet: strict decoding error: unknown field "spec.berths[0].deep", unknown field "spec.shipz"\n[1]'
        )
        assert terminal.run("kubectl apply -f bad.yaml") == refused
        assert terminal.run("kubectl create --validate=strict -f bad.yaml") == refused
        terminal("""
            $ kubectl create --validate=warn --dry-run=server -f bad.yaml
            Warning: unknown field "spec.berths[0].deep"
            Warning: unknown field "spec.shipz"
            fleet.harbour.example.com/north created (server dry run)
        """)
    else:
        shown = terminal.run("kubectl apply -f bad.yaml")
        assert shown.startswith(
            'error: error validating "bad.yaml": error validating data: [ValidationError(Fleet.spec'
        )
        assert 'unknown field "shipz" in com.example.harbour.v1.Fleet.spec' in shown
    terminal(f"""
        $ kubectl apply --validate=false -f bad.yaml 2>/dev/null
        fleet.harbour.example.com/north created
        $ {SPEC}
        {{"berths":[{{"name":"quay"}}],"flag":"blue","ships":1}}
    """)
    # Which of the two is named, or both, is left open.
    shown = terminal.run("kubectl apply --server-side --validate=false -f bad.yaml")
    assert "failed to create typed patch object (<ns>/north; harbour.example.com/v1, Kind=Fleet): " in shown
    assert ": field not declared in schema" in shown


def test_all_validation_errors_are_reported(north):
    # The order of the causes is not fixed.
    north("""
        $ kubectl patch fleet north --type=merge -p '{"spec":{"flag":"green","ships":101,"berths":[{"name":"a"},{"name":"a"},{"depth":1}]}}' 2>&1 | sort
        * <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        * spec.berths[1]: Duplicate value: {"name":"a"}
        * spec.berths[2].name: Required value
        * spec.flag: Unsupported value: "green": supported values: "blue", "red"
        * spec.ships: Invalid value: 101: spec.ships in body should be less than or equal to 100
        The Fleet "north" is invalid:
        $ kubectl patch fleet north --type=merge -p '{"spec":{"berths":"many"}}' 2>&1 | sort
        * <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        * spec.berths: Invalid value: "string": spec.berths in body must be of type array: "string"
        The Fleet "north" is invalid:
        $ kubectl patch fleet north --type=merge -p '{"spec":null}'
        The Fleet "north" is invalid:
        * spec: Required value
        * <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        [1]
    """)
    north.write("bad.yaml", fleet("ships: 2", name="north_1"))
    north("""
        $ kubectl create --validate=false -f bad.yaml 2>&1 | cut -d: -f1,2 | sort
        * <nil>: Invalid value
        * metadata.name: Invalid value
        * spec.flag: Required value
        The Fleet "north_1" is invalid:
    """)


def test_cel_rules_report_their_messages(north):
    north.write("bad.yaml", fleet("flag: red, ships: 1, reserve: 2"))
    north("""
        $ kubectl patch fleet north --type=merge -p '{"spec":{"flag":"red"}}'
        The Fleet "north" is invalid: spec: Invalid value: a fleet does not change its flag
        [1]
        $ kubectl patch fleet north --type=merge -p '{"spec":{"reserve":4}}'
        The Fleet "north" is invalid: spec: Invalid value: the reserve is part of the fleet
        [1]
        $ kubectl apply -f bad.yaml
        The Fleet "north" is invalid:
        * spec: Invalid value: the reserve is part of the fleet
        * spec: Invalid value: a fleet does not change its flag
        [1]
        $ kubectl scale fleet north --replicas=4
        fleet.harbour.example.com/north scaled
        $ kubectl patch fleet north --type=merge -p '{"spec":{"reserve":4}}'
        fleet.harbour.example.com/north patched
        $ kubectl scale fleet north --replicas=3
        The Fleet "north" is invalid: spec: Invalid value: the reserve is part of the fleet
        [1]
    """)


def test_each_write_records_a_field_manager(north):
    north.output('kubectl patch fleet north --type=merge -p \'{"spec":{"reserve":1}}\'')
    north.output("kubectl scale fleet north --replicas=4")
    flag = " --show-managed-fields" if north.minor >= 21 else ""
    entries = json.loads(north.output(f"kubectl get fleet north -o json{flag}"))["metadata"]["managedFields"]
    owners = {(entry["manager"], entry["apiVersion"], entry.get("subresource", "")) for entry in entries}
    assert owners == {
        ("kubectl-client-side-apply", "harbour.example.com/v1", ""),
        ("kubectl-patch", "harbour.example.com/v1", ""),
        ("kubectl", "harbour.example.com/v1", "scale"),
    }


def test_an_object_is_kept_until_its_finalizer_is_removed(north):
    north.output(
        'kubectl patch fleet north --type=merge -p \'{"metadata":{"finalizers":["harbour.example.com/crew"]}}\''
    )
    with meanwhile(north, "kubectl", "delete", "fleet", "north"):
        north(
            """
            $ kubectl wait --for=jsonpath='{.metadata.deletionGracePeriodSeconds}'=0 fleet/north --timeout=30s
            fleet.harbour.example.com/north condition met
        """
            if north.minor >= 23
            else "$ until kubectl get fleet north -o yaml | grep -q deletionTimestamp; do :; done"
        )
        north.output('kubectl patch fleet north --type=merge -p \'{"metadata":{"finalizers":null}}\'')
    north("""
        $ kubectl get fleets
        No resources found in <ns> namespace.
    """)
