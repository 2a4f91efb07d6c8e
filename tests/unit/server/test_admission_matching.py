"""Rules, match policy and selectors of admission: which requests a webhook or a policy is about."""

import datetime as dt

import pytest

from kapi.api.errors import InternalError, NotFound
from kapi.base.clock import ManualClock
from kapi.registry.catalog import Catalog
from kapi.registry.request import CONNECT, CREATE, DELETE, UPDATE, Write
from kapi.server.admission.matching import (
    RequestKind,
    RequestNamespace,
    ResourceRules,
    Selectors,
    equivalents,
    first_match,
    is_exempt,
    kind_of,
    namespace_of,
)
from kapi.storage.memory import MemoryStorage

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def catalog():
    return Catalog(MemoryStorage(), ManualClock(NOW))


def rule(**fields):
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    return {**every, **fields}


def matched(catalog, resource, operation=CREATE, subresource="", *, policy="Exact", **fields):
    """The resources, in the order of preference, that a single rule leads to for a request."""
    rules = ResourceRules([rule(**fields)], match_policy=policy)
    return [one.resource for one in rules.matches(RequestKind(operation, resource, subresource, catalog))]


@pytest.mark.parametrize(
    ("fields", "operation", "subresource", "covered"),
    [
        ({}, CREATE, "", True),
        ({}, CREATE, "status", False),
        ({"resources": ["pods"]}, CREATE, "", True),
        ({"resources": ["pods"]}, CONNECT, "exec", False),
        ({"resources": ["pods/exec"]}, CONNECT, "exec", True),
        ({"resources": ["pods/*"]}, CONNECT, "exec", True),
        ({"resources": ["pods/*"]}, CREATE, "", True),
        ({"resources": ["*/exec"]}, CONNECT, "exec", True),
        ({"resources": ["*/*"]}, CONNECT, "exec", True),
        ({"resources": ["*/*"]}, CREATE, "", True),
        ({"resources": ["services", "pods/status"]}, UPDATE, "status", True),
        ({"resources": ["services"]}, CREATE, "", False),
        ({"operations": ["UPDATE", "CREATE"]}, CREATE, "", True),
        ({"operations": ["UPDATE"]}, DELETE, "", False),
        ({"apiGroups": [""]}, CREATE, "", True),
        ({"apiGroups": ["apps"]}, CREATE, "", False),
        ({"apiVersions": ["v1"]}, CREATE, "", True),
        ({"apiVersions": ["v2"]}, CREATE, "", False),
        ({"scope": "Namespaced"}, CREATE, "", True),
        ({"scope": "Cluster"}, CREATE, "", False),
        ({"scope": "*"}, CREATE, "", True),
    ],
)
def test_a_rule_covers_what_it_names(catalog, fields, operation, subresource, covered):
    pods = catalog.find("", "v1", "pods")
    assert bool(matched(catalog, pods, operation, subresource, **fields)) is covered


def test_namespaces_are_in_the_scope_of_the_cluster(catalog):
    namespaces = catalog.find("", "v1", "namespaces")
    assert matched(catalog, namespaces, scope="Cluster") == [namespaces]
    assert matched(catalog, namespaces, scope="Namespaced") == []


def test_equivalent_rules_match_other_versions_and_groups_of_the_same_objects(catalog):
    events, core = catalog.find("events.k8s.io", "v1", "events"), catalog.find("", "v1", "events")
    assert matched(catalog, core, apiGroups=["events.k8s.io"]) == []
    assert matched(catalog, core, apiGroups=["events.k8s.io"], policy="Equivalent") == [events]
    assert matched(catalog, events, apiGroups=[""], policy="Equivalent") == [core]
    v1, v2 = (catalog.find("autoscaling", version, "horizontalpodautoscalers") for version in ("v1", "v2"))
    assert matched(catalog, v1, apiVersions=["v2"], policy="Equivalent") == [v2]
    assert matched(catalog, v1, UPDATE, "status", resources=["*/status"], apiVersions=["v2"], policy="Equivalent") == [
        v2
    ]


def test_the_version_of_the_request_is_preferred_to_an_equivalent_one(catalog):
    v1 = catalog.find("autoscaling", "v1", "horizontalpodautoscalers")
    rules = [rule(apiVersions=["v2"]), rule(apiVersions=["v1"])]
    found = ResourceRules(rules, match_policy="Equivalent").matches(RequestKind(CREATE, v1, "", catalog))
    assert found[0].resource is v1
    assert [one.kind.version for one in found] == ["v1", "v2"]


def test_resource_names_limit_a_match(catalog):
    pods = catalog.find("", "v1", "pods")
    rules = [rule(resourceNames=["a", "b"], resources=["pods"]), rule(apiVersions=["v1"], resourceNames=["c"])]
    found = ResourceRules(rules, match_policy=None).matches(RequestKind(CREATE, pods, "", catalog))
    assert first_match(found, "b") is found[0]
    assert first_match(found, "c") is found[1]
    assert first_match(found, "d") is None


def test_the_kind_of_a_subresource_is_its_own(catalog):
    pods = catalog.find("", "v1", "pods")
    assert kind_of(pods, "") == ("", "v1", "Pod")
    assert kind_of(pods, "status") == ("", "v1", "Pod")
    assert kind_of(pods, "eviction") == ("policy", "v1", "Eviction")
    assert kind_of(pods, "exec") == ("", "v1", "PodExecOptions")
    assert kind_of(catalog.find("apps", "v1", "deployments"), "scale") == ("autoscaling", "v1", "Scale")


def test_what_is_not_stored_is_equivalent_to_itself_alone(catalog):
    reviews = catalog.find("authorization.k8s.io", "v1", "subjectaccessreviews")
    assert equivalents(catalog, reviews, "") == [reviews]


def test_the_configurations_of_admission_are_exempt(catalog):
    group = "admissionregistration.k8s.io"
    exempt = {one.resource for one in catalog if is_exempt(one)}
    assert exempt == {one.resource for one in catalog if one.group == group}


# -- selectors --------------------------------------------------------------------------------------------------------


class Namespaces:
    """A lookup that knows namespaces by name, with labels."""

    def __init__(self, **labels):
        self._labels = labels

    def get(self, resource, namespace, name):
        assert resource == "namespaces"
        return {"metadata": {"name": name, "labels": self._labels[name]}} if name in self._labels else None


def request(catalog, operation=CREATE, resource="pods", *, namespace="prod", name="a", subresource="", lookup=None):
    found = catalog.find("", "v1", resource)
    lookup = lookup or Namespaces(prod={"tier": "gold"})
    namespace = namespace if found.namespaced else ""
    return Write(
        operation, found, lookup=lookup, now=NOW, namespace=namespace, name=name, subresource=subresource, verb="create"
    )


def labelled(**labels):
    return {"metadata": {"labels": labels}}


GOLD = {"matchLabels": {"tier": "gold"}}
IRON = {"matchLabels": {"tier": "iron"}}


@pytest.mark.parametrize(("selector", "selects"), [({}, True), (GOLD, True), (IRON, False), (None, False)])
def test_the_namespace_selector_is_about_the_namespace_of_the_request(catalog, selector, selects):
    assert Selectors(selector, {}).match(RequestNamespace(request(catalog)), labelled(), None) is selects


def test_objects_of_the_cluster_pass_every_namespace_selector(catalog):
    assert Selectors(IRON, {}).match(RequestNamespace(request(catalog, resource="nodes")), labelled(), None)


def test_a_namespace_is_selected_by_the_labels_it_will_have(catalog):
    write = request(catalog, UPDATE, "namespaces", name="prod")
    assert namespace_of(write) == "prod"
    assert Selectors(IRON, {}).match(RequestNamespace(write), labelled(tier="iron"), labelled(tier="gold"))
    assert not Selectors(GOLD, {}).match(RequestNamespace(write), labelled(tier="iron"), labelled(tier="gold"))


@pytest.mark.parametrize(("operation", "subresource"), [(DELETE, ""), (UPDATE, "status")])
def test_a_namespace_that_is_deleted_or_gets_a_status_is_selected_by_the_labels_it_has(catalog, operation, subresource):
    write = request(catalog, operation, "namespaces", name="prod", subresource=subresource)
    assert Selectors(GOLD, {}).match(RequestNamespace(write), labelled(tier="iron"), None)


def test_a_missing_namespace_is_not_found_unless_nothing_asks_for_its_labels(catalog):
    write = request(catalog, namespace="gone")
    with pytest.raises(NotFound, match='namespaces "gone" not found'):
        Selectors(GOLD, {}).match(RequestNamespace(write), labelled(), None)
    assert Selectors({}, {}).match(RequestNamespace(write), labelled(), None)
    assert not Selectors(GOLD, IRON).match(RequestNamespace(write), labelled(), None)


def test_the_object_selector_selects_by_the_new_or_the_old_object(catalog):
    write, selectors = request(catalog, UPDATE), Selectors({}, GOLD)
    assert selectors.match(RequestNamespace(write), labelled(tier="gold"), labelled())
    assert selectors.match(RequestNamespace(write), labelled(), labelled(tier="gold"))
    assert selectors.match(RequestNamespace(write), None, labelled(tier="gold"))
    assert not selectors.match(RequestNamespace(write), labelled(), labelled())
    assert not selectors.match(RequestNamespace(write), None, None)


def test_options_without_metadata_are_selected_by_the_empty_selector_only(catalog):
    write = request(catalog, CONNECT, subresource="exec")
    absent = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    assert Selectors({}, {}).match(RequestNamespace(write), {"kind": "PodExecOptions"}, None)
    assert not Selectors({}, absent).match(RequestNamespace(write), {"kind": "PodExecOptions"}, None)
    assert Selectors({}, absent).match(RequestNamespace(write), labelled(), None)


def test_a_selector_that_cannot_be_used_fails_the_request(catalog):
    broken = {"matchExpressions": [{"key": "tier", "operator": "Like"}]}
    with pytest.raises(InternalError, match='"Like" is not a valid label selector operator'):
        Selectors(broken, {}).match(RequestNamespace(request(catalog)), labelled(), None)
    with pytest.raises(InternalError, match='"Like" is not a valid label selector operator'):
        Selectors({}, broken).match(RequestNamespace(request(catalog)), labelled(), None)
