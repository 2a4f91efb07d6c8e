"""Discovery in both forms, and OpenAPI: what clients learn of the server before they use it."""

import gzip
import json

import pytest

from api_client import TABLE, served
from kapi.base.version import compiler

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


# -- the old form -----------------------------------------------------------------------------------------------------


@served
async def test_versions_of_the_core_group(api):
    answer = await api.get("/api")
    assert answer.json == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }


@served
async def test_groups_are_in_the_order_that_decides_short_names(api):
    groups = (await api.get("/apis"))["groups"]
    names = [group["name"] for group in groups]
    expected = ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"]
    assert names[:5] == expected
    assert names.index("autoscaling") < names.index("batch") < names.index("networking.k8s.io") < names.index("policy")
    autoscaling = next(group for group in groups if group["name"] == "autoscaling")
    assert [version["version"] for version in autoscaling["versions"]] == ["v2", "v1"]
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert "kind" not in autoscaling


@served
async def test_one_group(api):
    answer = await api.get("/apis/apps")
    version = {"groupVersion": "apps/v1", "version": "v1"}
    assert answer.json == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [version],
        "preferredVersion": version,
    }
    for path in ("/apis/apps/", "/apis/", "/api/", "/api/v1/", "/apis/apps/v1/"):
        assert (await api.get(path)).status == 200, path


@served
async def test_resources_of_a_group(api):
    answer = await api.get("/apis/apps/v1")
    assert list(answer.json)[:3] == ["kind", "apiVersion", "groupVersion"]
    entries = {entry["name"]: entry for entry in answer["resources"]}
    assert list(entries) == sorted(entries)
    deployments = entries["deployments"]
    assert deployments["singularName"] == "deployment"
    assert deployments["namespaced"] is True
    assert deployments["verbs"] == ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    assert (deployments["shortNames"], deployments["categories"]) == (["deploy"], ["all"])
    assert len(deployments["storageVersionHash"]) == 12
    assert entries["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }


@served
async def test_core_resources_come_without_an_api_version(api):
    answer = await api.get("/api/v1")
    assert "apiVersion" not in answer.json
    assert answer["groupVersion"] == "v1"
    entries = {entry["name"]: entry for entry in answer["resources"]}
    assert "deletecollection" not in entries["namespaces"]["verbs"]
    assert entries["namespaces/finalize"]["verbs"] == ["update"]
    assert entries["pods/eviction"]["group"] == "policy"
    assert entries["pods/log"]["verbs"] == ["get"]
    assert entries["pods/exec"]["verbs"] == ["create", "get"]
    assert entries["componentstatuses"]["verbs"] == ["get", "list"]
    assert "storageVersionHash" not in entries["bindings"]


@served
async def test_discovery_has_no_table(api):
    for path in ("/api/v1", "/apis/apps", "/api", "/apis"):
        assert (await api.get(path, headers={"accept": TABLE})).status == 406


# -- the aggregated form ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [AGGREGATED, KUBECTL])
@served
async def test_aggregated_discovery(api, accept):
    answer = await api.get("/apis", headers={"accept": accept})
    assert answer.header("Content-Type") == AGGREGATED
    assert answer.header("Cache-Control") == "public"
    assert answer.header("Vary") == "Accept"
    assert (answer["kind"], answer["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {item["metadata"]["name"]: item for item in answer["items"]}
    version = groups["apps"]["versions"][0]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    deployments = next(entry for entry in version["resources"] if entry["resource"] == "deployments")
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert deployments["scope"] == "Namespaced"
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }
    assert list(groups) == [group["name"] for group in (await api.get("/apis"))["groups"]]


@served
async def test_core_group_in_aggregated_discovery_has_no_name(api):
    answer = await api.get("/api", headers={"accept": AGGREGATED})
    assert [item["metadata"] for item in answer["items"]] == [{}]
    resources = {entry["resource"]: entry for entry in answer["items"][0]["versions"][0]["resources"]}
    assert resources["nodes"]["scope"] == "Cluster"
    assert resources["pods"]["shortNames"] == ["po"]


@served
async def test_unchanged_discovery_is_not_modified(api):
    etags = set()
    for path in ("/api", "/apis"):
        first = await api.get(path, headers={"accept": AGGREGATED})
        etag = first.header("ETag")
        assert etag.startswith('"')
        assert len(etag) == 130
        etags.add(etag)
        again = await api.get(path, headers={"accept": AGGREGATED, "if-none-match": etag})
        assert (again.status, again.raw, again.header("ETag")) == (304, b"", etag)
        other = await api.get(path, headers={"accept": AGGREGATED, "if-none-match": '"x"'})
        assert other.status == 200
    assert len(etags) == 2


@served
async def test_unsupported_version_of_aggregated_discovery_is_not_acceptable(api):
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    assert (await api.get("/apis", headers={"accept": accept})).status == 406


@served
async def test_aggregated_and_plain_discovery_agree(api):
    aggregated = {}
    for path in ("/api", "/apis"):
        for item in (await api.get(path, headers={"accept": AGGREGATED}))["items"]:
            group = item["metadata"].get("name", "")
            for version in item["versions"]:
                names = {entry["resource"] for entry in version["resources"]}
                names |= {
                    f"{entry['resource']}/{sub['subresource']}"
                    for entry in version["resources"]
                    for sub in entry.get("subresources", ())
                }
                aggregated[group, version["version"]] = names
    for (group, version), names in aggregated.items():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        assert {entry["name"] for entry in (await api.get(path))["resources"]} == names


# -- version ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/version", "/version/"])
@served
async def test_version_is_indented(api, path):
    answer = await api.get(path)
    assert answer.raw.startswith(b'{\n  "major": "1",\n  "minor": "36",\n')
    assert answer["gitVersion"].startswith("v1.36.")
    assert all(isinstance(value, str) for value in answer.json.values())
    assert list(answer.json) == [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ]
    assert answer["compiler"] == compiler()


# -- OpenAPI ----------------------------------------------------------------------------------------------------------


@served
async def test_openapi_v3_index_links_every_group_version(api):
    paths = (await api.get("/openapi/v3"))["paths"]
    served_versions = {
        f"apis/{group}/{version}" if group else f"api/{version}"
        for group, versions in api.catalog.groups.items()
        for version in versions
    }
    assert served_versions <= set(paths)
    for key in served_versions:
        url = paths[key]["serverRelativeURL"]
        assert url.startswith(f"/openapi/v3/{key}?hash=")


@served
async def test_openapi_document_with_its_hash_is_immutable(api):
    url = (await api.get("/openapi/v3"))["paths"]["apis/policy/v1"]["serverRelativeURL"]
    answer = await api.get(url)
    assert answer.status == 200
    assert answer.header("Content-Type") == "application/json"
    assert answer.header("Cache-Control") == "public, immutable"
    assert answer.header("Expires") == "Fri, 01 Jan 2027 00:00:00 GMT"
    digest = url.partition("hash=")[2]
    assert answer.header("ETag") == f'"{digest}"'
    assert answer["openapi"] == "3.0.0"
    assert answer["info"]["title"] == "Kubernetes"
    again = await api.get(url, headers={"if-none-match": f'"{digest}"'})
    assert (again.status, again.raw) == (304, b"")


@served
async def test_wrong_hash_redirects_to_the_right_one(api):
    url = (await api.get("/openapi/v3"))["paths"]["apis/policy/v1"]["serverRelativeURL"]
    answer = await api.get("/openapi/v3/apis/policy/v1", hash="nope")
    assert (answer.status, answer.header("Location")) == (301, url)


@served
async def test_openapi_document_without_a_hash_is_not_cached(api):
    answer = await api.get("/openapi/v3/apis/policy/v1")
    assert answer.status == 200
    assert answer.header("Cache-Control") == "no-cache, private"
    assert answer.header("Vary") == "Accept"


@pytest.mark.parametrize("key", ["apis/nope/v1", "api/v9", "x", "apis/policy"])
@served
async def test_unknown_document_is_not_found(api, key):
    answer = await api.get(f"/openapi/v3/{key}")
    assert (answer.status, answer.raw) == (404, b"")


@served
async def test_openapi_documents_have_the_extensions_kubectl_reads(api):
    document = (await api.get("/openapi/v3/apis/policy/v1")).json
    path = document["paths"]["/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"]
    operation = path["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {
        "group": "policy",
        "version": "v1",
        "kind": "PodDisruptionBudget",
    }
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}
    schema = document["components"]["schemas"]["io.k8s.api.policy.v1.PodDisruptionBudget"]
    assert {"group": "policy", "version": "v1", "kind": "PodDisruptionBudget"} in schema[
        "x-kubernetes-group-version-kind"
    ]


@served
async def test_openapi_v2_document(api):
    answer = await api.get("/openapi/v2")
    assert answer.header("Content-Type") == "application/json"
    assert answer["swagger"] == "2.0"
    assert "io.k8s.api.core.v1.Pod" in answer["definitions"]
    assert sorted(answer.every("Vary")) == ["Accept", "Accept-Encoding"]
    etag = answer.header("ETag")
    again = await api.get("/openapi/v2", headers={"if-none-match": etag})
    assert (again.status, again.raw) == (304, b"")


@served
async def test_openapi_v2_document_is_compressed(api):
    answer = await api.get("/openapi/v2", headers={"accept-encoding": "gzip"})
    assert answer.header("Content-Encoding") == "gzip"
    assert json.loads(gzip.decompress(answer.raw))["swagger"] == "2.0"


@served
async def test_openapi_v2_document_in_protobuf(api):
    answer = await api.get("/openapi/v2", headers={"accept": V2_PROTOBUF})
    assert answer.header("Content-Type") == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert b"io.k8s.api.core.v1.Pod" in answer.raw


@served
async def test_openapi_v2_document_in_other_formats_is_not_acceptable(api):
    answer = await api.get("/openapi/v2", headers={"accept": "text/html"})
    assert (answer.status, answer.raw) == (406, b"")
