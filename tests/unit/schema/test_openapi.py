import msgspec
import pytest
from served_samples import DEPLOYMENTS, NODES, PODS, REVIEWS, ROLES, every_stable_resource

from kapi.api.meta import GroupVersion
from kapi.schema.openapi import parameters, v2, v3

CORE, APPS = GroupVersion("", "v1"), GroupVersion("apps", "v1")
PODS_PATH = "/api/v1/namespaces/{namespace}/pods"


@pytest.fixture(scope="module")
def core():
    return v3.document(CORE, [PODS, NODES])


@pytest.fixture(scope="module")
def apps():
    return v3.document(APPS, [DEPLOYMENTS])


def references(value):
    if isinstance(value, list):
        for entry in value:
            yield from references(entry)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for entry in value.values():
            yield from references(entry)


def old_document(*parts):
    return msgspec.json.decode(v2.join(v2.entries(part) for part in parts))


def by_group_version(resources):
    groups = {}
    for one in resources:
        groups.setdefault(one.group_version, []).append(one)
    return groups


def operations(document):
    return {
        operation["operationId"]: operation
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }


def test_every_reference_of_a_v3_document_is_in_it():
    for group_version, resources in by_group_version(every_stable_resource()).items():
        document = v3.document(group_version, resources)
        known = {"#/components/schemas/" + name for name in document["components"]["schemas"]}
        assert set(references(document)) <= known
        msgspec.json.encode(document)


def test_every_reference_of_the_v2_document_is_in_it():
    document = old_document(v2.builtin_part(every_stable_resource()))
    known = {"#/definitions/" + name for name in document["definitions"]}
    known |= {"#/parameters/" + name for name in document["parameters"]}
    assert set(references(document)) <= known


@pytest.mark.parametrize("one", every_stable_resource(), ids=lambda one: f"{one.plural}.{one.group}")
def test_each_resource_has_what_kubectl_explain_needs(one):
    document = v3.document(one.group_version, [one])
    kind = {"group": one.group, "version": one.version, "kind": one.kind}
    root = f"/apis/{one.group}/{one.version}" if one.group else "/api/v1"
    item = document["paths"][f"{root}/namespaces/{{namespace}}/{one.plural}/{{name}}"]
    assert item["get"]["x-kubernetes-group-version-kind"] == kind
    schemas = [
        schema
        for schema in document["components"]["schemas"].values()
        if kind in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert len(schemas) == 1
    assert schemas[0]["description"]
    assert schemas[0]["properties"]["metadata"]["allOf"]
    # kubectl leaves validation to the server when it sees this parameter on the kind's PATCH.
    assert "fieldValidation" in [parameter["name"] for parameter in item["patch"]["parameters"]]
    assert item["patch"]["x-kubernetes-group-version-kind"] == kind


def test_operations_are_named_as_clients_know_them(core, apps):
    assert {
        "getCoreV1APIResources",
        "listCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "createCoreV1NamespacedPod",
        "deleteCoreV1CollectionNamespacedPod",
        "deleteCoreV1NamespacedPod",
        "readCoreV1NamespacedPod",
        "replaceCoreV1NamespacedPodStatus",
        "createCoreV1NamespacedPodBinding",
        "connectCoreV1GetNamespacedPodExec",
        "readCoreV1NamespacedPodLog",
        "listCoreV1Node",
        "patchCoreV1Node",
    } <= operations(core).keys()
    assert "readAppsV1NamespacedDeploymentScale" in operations(apps)
    roles = v3.document(ROLES.group_version, [ROLES])
    role = operations(roles)["readRbacAuthorizationV1NamespacedRole"]
    assert role["tags"] == ["rbacAuthorization_v1"]


def test_only_served_verbs_have_operations():
    document = v3.document(REVIEWS.group_version, [REVIEWS])
    root = "/apis/authorization.k8s.io/v1"
    assert set(document["paths"]) == {f"{root}/", f"{root}/subjectaccessreviews"}
    assert set(document["paths"][f"{root}/subjectaccessreviews"]) == {"post", "parameters"}


def test_operations_say_what_they_do_and_on_what(core):
    item = core["paths"][PODS_PATH]
    assert item["get"]["x-kubernetes-action"] == "list"
    assert item["delete"]["x-kubernetes-action"] == "deletecollection"
    assert item["post"]["x-kubernetes-action"] == "post"
    assert item["post"]["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert core["paths"][PODS_PATH + "/{name}/exec"]["post"]["x-kubernetes-action"] == "connect"
    eviction = core["paths"][PODS_PATH + "/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}


def test_paths_and_queries_have_their_parameters(core):
    item = core["paths"][PODS_PATH + "/{name}"]
    assert [parameter["name"] for parameter in item["parameters"]] == ["namespace", "name", "pretty"]
    assert [parameter["name"] for parameter in item["patch"]["parameters"]] == [
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
    ]
    assert "propagationPolicy" in [parameter["name"] for parameter in item["delete"]["parameters"]]
    assert "parameters" not in core["paths"]["/api/v1/"]


def test_bodies_and_answers_refer_to_the_kind(core):
    pod = {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod"}
    post = core["paths"][PODS_PATH]["post"]
    assert post["requestBody"] == {"content": {"*/*": {"schema": pod}}, "required": True}
    assert set(post["responses"]) == {"200", "201", "202", "401"}
    assert post["responses"]["201"]["content"]["application/json"]["schema"] == pod
    patch = core["paths"][PODS_PATH + "/{name}"]["patch"]
    assert "application/apply-patch+yaml" in patch["requestBody"]["content"]
    listing = core["paths"][PODS_PATH]["get"]["responses"]["200"]["content"]
    assert listing["application/json"]["schema"]["$ref"].endswith(".PodList")
    assert "application/json;stream=watch" in listing
    log = core["paths"][PODS_PATH + "/{name}/log"]["get"]["responses"]["200"]["content"]
    assert log == {"*/*": {"schema": {"type": "string"}}}


def test_v3_schemas_wrap_references_and_keep_merge_rules(core):
    schemas = core["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    spec = {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}
    assert pod["properties"]["spec"]["allOf"] == [spec]
    assert pod["properties"]["spec"]["default"] == {}
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["items"] == {
        "default": {},
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}],
    }
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    affinity = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["affinity"]
    assert "default" not in affinity
    assert schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["enum"] == ["SCTP", "TCP", "UDP"]


def test_choices_are_spelt_as_each_version_does(core):
    schemas = core["components"]["schemas"]
    port, amount = "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert schemas[port]["oneOf"] == [{"type": "integer"}, {"type": "string"}]
    assert schemas[port]["format"] == "int-or-string"
    assert schemas[amount]["oneOf"] == [{"type": "string"}, {"type": "number"}]
    definitions = v2.builtin_part([PODS]).definitions
    assert (definitions[port]["type"], definitions[port]["format"]) == ("string", "int-or-string")
    assert definitions[amount]["type"] == "string"


def test_v2_keeps_references_bare_and_publishes_no_defaults():
    document = old_document(v2.builtin_part([PODS, DEPLOYMENTS]))
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert b'"default":' not in msgspec.json.encode(document["definitions"])


def test_documents_open_as_the_format_demands(core):
    assert core["openapi"] == "3.0.0"
    assert core["info"] == {"title": "Kubernetes", "version": "1.36"}
    assert core["components"]["securitySchemes"]["BearerToken"]["in"] == "header"
    document = old_document(v2.builtin_part([NODES]))
    assert document["swagger"] == "2.0"
    assert document["security"] == [{"BearerToken": []}]


def test_v2_shares_parameters_but_for_those_old_kubectl_looks_for():
    document = old_document(v2.builtin_part([PODS]))
    item = document["paths"][f"{PODS_PATH}/{{name}}"]
    assert item["parameters"] == [{"$ref": f"#/parameters/{name}"} for name in ("namespace", "name", "pretty")]
    patch = item["patch"]["parameters"]
    assert [parameter["name"] for parameter in patch if "name" in parameter] == ["dryRun", "fieldValidation"]
    assert patch[0] == {"$ref": "#/parameters/body-Patch"}
    shared = document["parameters"]
    assert shared["body-Patch"]["required"] is True
    assert "required" not in shared["body-DeleteOptions"]
    assert (shared["limit"]["in"], shared["limit"]["type"]) == ("query", "integer")
    assert (shared["namespace"]["in"], shared["namespace"]["required"]) == ("path", True)
    put = item["put"]["parameters"][0]
    assert (put["name"], put["schema"]) == ("body", {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"})


def test_the_index_finds_documents_by_their_hash():

    key = v3.key(APPS)
    assert v3.index({key: "ABC"}) == {
        "paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=ABC"}}
    }
    assert v3.key(CORE) == "api/v1"


def every_parameter(document):
    """Each parameter of each operation, with references resolved."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for parameter in operation if method == "parameters" else operation.get("parameters", ()):
                reference = parameter.get("$ref", "").removeprefix("#/parameters/")
                yield path, document["parameters"][reference] if reference else parameter


def test_v2_describes_every_query_and_path_parameter():
    described = set()
    for path, parameter in every_parameter(old_document(v2.builtin_part(every_stable_resource()))):
        if parameter["in"] != "body":
            assert len(parameter["description"]) > 10, (path, parameter)
            described.add(parameter["name"])
    assert described >= {
        *("allowWatchBookmarks", "continue", "dryRun", "fieldManager", "fieldSelector", "fieldValidation", "force"),
        *("gracePeriodSeconds", "labelSelector", "limit", "name", "namespace", "orphanDependents", "pretty"),
        *("propagationPolicy", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds"),
        "watch",
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pretty", ["pretty printed"]),
        ("dryRun", ["persisted", "All"]),
        ("fieldManager", ["fieldManager", "128", "application/apply-patch"]),
        ("fieldValidation", ["unknown", "duplicate", "Ignore", "Warn", "Strict"]),
        ("labelSelector", ["labels", "Defaults to everything"]),
        ("limit", ["maximum number", "continue"]),
        ("continue", ["410", "ResourceExpired"]),
        ("propagationPolicy", ["garbage collection", "'Orphan'", "'Background'", "'Foreground'"]),
        ("allowWatchBookmarks", ["BOOKMARK"]),
        ("sendInitialEvents", ["k8s.io/initial-events-end"]),
        ("watch", ["add, update, and remove"]),
        ("timeoutSeconds", ["Timeout for the list/watch call"]),
    ],
)
def test_descriptions_have_the_words_that_people_search_for(name, words):
    text = parameters.PARAMETERS[name][1]
    assert [word for word in words if word not in text] == []


def test_logs_and_streams_have_the_parameters_of_their_options():
    paths = old_document(v2.builtin_part([PODS]))["paths"]
    for name, queries in (("log", {"container", "follow", "previous", "tailLines"}), ("exec", {"command", "tty"})):
        found = paths[f"{PODS_PATH}/{{name}}/{name}"]["get"]["parameters"]
        assert queries <= {one["$ref"].removeprefix("#/parameters/") for one in found}
    assert "parameters" not in paths[f"{PODS_PATH}/{{name}}/status"]["get"]
