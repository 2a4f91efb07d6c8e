"""Custom kinds in discovery and OpenAPI: there the moment their definition is, in the words clients know.

What is expected here was answered by a Kubernetes 1.36 server.
"""

import json

from api_client import served
from kapi.server.pages import openapi as openapi_module
from kapi.server.pages.discovery import Discovery
from kapi.server.pages.openapi import OpenAPI

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
STATUS = ["get", "patch", "update"]
NUMBER = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


def version(name, *, schema=NUMBER, storage=False, **more):
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(kind, group="example.com", *, versions=None, scope="Namespaced", **names):
    plural = kind.lower() + "s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": versions or [version("v1", storage=True)],
        },
    }


def widgets():
    full = version("v1", storage=True, subresources={"status": {}, "scale": SCALE})
    versions = [full, version("v1beta1"), version("v2"), version("v2alpha1")]
    return definition("Widget", shortNames=["wd", "wdg"], categories=["all"], versions=versions)


async def defined(api, *definitions):
    return [await api.made(DEFINITIONS, one) for one in definitions]


async def changed(api, stored, change):
    """Change a definition; what is stored then."""
    change(stored["spec"])
    answer = await api.put(f"{DEFINITIONS}/{stored['metadata']['name']}", stored)
    assert answer.status == 200, answer
    return answer.json


# -- discovery --------------------------------------------------------------------------------------------------------


@served
async def test_custom_groups_follow_the_built_in_ones(api):
    before = [group["name"] for group in (await api.get("/apis"))["groups"]]
    others = [
        definition("Zed", "zzz.example.com"),
        definition("Apple", "aaa.example.com", versions=[version("v1alpha1", storage=True)]),
    ]
    await defined(api, *others, widgets())
    groups = (await api.get("/apis"))["groups"]
    # OpenAPI v2 is ordered by the names of APIServices, which begin with the version.
    assert [group["name"] for group in groups] == [*before, "example.com", "zzz.example.com", "aaa.example.com"]
    aggregated = (await api.get("/apis", headers={"accept": AGGREGATED}))["items"]
    names = [item["metadata"]["name"] for item in aggregated]
    assert names == [*before, "aaa.example.com", "example.com", "zzz.example.com"]


@served
async def test_versions_of_a_custom_group_are_in_order_of_stability(api):
    await defined(api, widgets())
    group = (await api.get("/apis/example.com")).json
    assert [one["version"] for one in group["versions"]] == ["v2", "v1", "v1beta1", "v2alpha1"]
    assert group["preferredVersion"] == {"groupVersion": "example.com/v2", "version": "v2"}


@served
async def test_resources_of_a_custom_group(api):
    await defined(api, widgets(), definition("Gear", scope="Cluster", listKind="GearCollection"))
    answer = (await api.get("/apis/example.com/v1")).json
    assert (answer["apiVersion"], answer["groupVersion"]) == ("v1", "example.com/v1")
    gears, full, status, scale = answer["resources"]
    assert (gears["name"], gears["namespaced"], "shortNames" in gears) == ("gears", False, False)
    assert full == {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "verbs": VERBS,
        "shortNames": ["wd", "wdg"],
        "categories": ["all"],
        "storageVersionHash": "gIwvi5rymmg=",
    }
    assert status == {
        "name": "widgets/status",
        "singularName": "",
        "namespaced": True,
        "kind": "Widget",
        "verbs": STATUS,
    }
    assert scale == {
        "name": "widgets/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": STATUS,
    }


@served
async def test_every_version_shows_the_storage_version_hash(api):
    (stored,) = await defined(api, widgets())

    async def hashes():
        found = [(await api.get(f"/apis/example.com/{name}"))["resources"][0] for name in ("v2", "v1beta1")]
        return {one.get("storageVersionHash") for one in found}

    assert await hashes() == {"gIwvi5rymmg="}

    def hide_the_stored_one(spec):
        spec["versions"][0]["served"] = False

    await changed(api, stored, hide_the_stored_one)
    assert await hashes() == {None}


@served
async def test_custom_group_in_aggregated_discovery(api):
    await defined(api, widgets())
    items = (await api.get("/apis", headers={"accept": AGGREGATED}))["items"]
    group = next(item for item in items if item["metadata"]["name"] == "example.com")
    assert [one["version"] for one in group["versions"]] == ["v2", "v1", "v1beta1", "v2alpha1"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert group["versions"][1] == {
        "version": "v1",
        "freshness": "Current",
        "resources": [
            {
                "resource": "widgets",
                "responseKind": kind,
                "scope": "Namespaced",
                "singularResource": "widget",
                "verbs": VERBS,
                "shortNames": ["wd", "wdg"],
                "categories": ["all"],
                "subresources": [
                    {"subresource": "status", "responseKind": kind, "verbs": STATUS},
                    {
                        "subresource": "scale",
                        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                        "verbs": STATUS,
                    },
                ],
            }
        ],
    }


@served
async def test_discovery_changes_with_definitions(api):
    async def etag(path):
        return (await api.get(path, headers={"accept": AGGREGATED})).header("ETag")

    core, before = await etag("/api"), await etag("/apis")
    (stored,) = await defined(api, widgets())
    during = await etag("/apis")
    assert during != before
    assert await etag("/api") == core
    again = await api.get("/apis", headers={"accept": AGGREGATED, "if-none-match": before})
    assert again.status == 200

    def hide_one(spec):
        spec["versions"][3]["served"] = False

    await changed(api, stored, hide_one)
    assert await etag("/apis") not in (before, during)
    assert (await api.get("/apis/example.com/v2alpha1")).status == 404


@served
async def test_only_discovery_of_the_changed_group_is_rebuilt(api):
    await defined(api, widgets(), definition("Zed", "zzz.example.com"))
    discovery = Discovery(api.catalog)
    discovery.aggregated(core=False)
    before = dict(discovery._fragments)
    await defined(api, definition("Gear"))
    body, _ = discovery.aggregated(core=False)
    assert b'"gears"' in body
    after = discovery._fragments
    assert {group for group in after if after[group] is not before[group]} == {"example.com"}


# -- OpenAPI ----------------------------------------------------------------------------------------------------------


async def index(api):
    paths = (await api.get("/openapi/v3"))["paths"]
    return {key: entry["serverRelativeURL"] for key, entry in paths.items()}


def retitle(spec):
    spec["versions"][0]["schema"]["openAPIV3Schema"]["title"] = "New"


@served
async def test_openapi_index_changes_with_definitions(api):
    before = await index(api)
    (stored,) = await defined(api, widgets())
    during = await index(api)
    keys = {f"apis/example.com/{name}" for name in ("v1", "v1beta1", "v2", "v2alpha1")}
    assert during.keys() - before.keys() == keys
    assert before.items() <= during.items()

    stored = await changed(api, stored, retitle)
    after = await index(api)
    assert {key for key in after if after[key] != during[key]} == {"apis/example.com/v1"}
    old = await api.get(during["apis/example.com/v1"])
    assert (old.status, old.header("Location")) == (301, after["apis/example.com/v1"])

    def hide_one(spec):
        spec["versions"][2]["served"] = False

    await changed(api, stored, hide_one)
    assert (await index(api)).keys() == after.keys() - {"apis/example.com/v2"}
    assert (await api.get("/openapi/v3/apis/example.com/v2")).status == 404


@served
async def test_openapi_document_of_a_custom_group_version(api):
    described = version("v1", storage=True, selectableFields=[{"jsonPath": ".spec.size"}])
    gear = definition("Gear", scope="Cluster", listKind="GearCollection", versions=[described])
    await defined(api, widgets(), gear)
    document = (await api.get("/openapi/v3/apis/example.com/v1")).json
    assert document["info"] == {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
    schemas = document["components"]["schemas"]
    custom = {name for name in schemas if not name.startswith("io.k8s.")}
    assert custom == {f"com.example.v1.{kind}" for kind in ("Widget", "WidgetList", "Gear", "GearCollection")}
    assert schemas["com.example.v1.Gear"]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.size"}]
    assert schemas["com.example.v1.Widget"]["properties"]["spec"] == NUMBER["properties"]["spec"]
    paths = document["paths"]
    assert "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale" in paths
    assert paths["/apis/example.com/v1/gears"]["get"]["operationId"] == "listExampleComV1Gear"


@served
async def test_openapi_document_changes_with_its_definition(api):
    (stored,) = await defined(api, widgets())
    first = (await api.get("/openapi/v3/apis/example.com/v1"))["components"]["schemas"]["com.example.v1.Widget"]
    assert "title" not in first
    await changed(api, stored, retitle)
    second = (await api.get("/openapi/v3/apis/example.com/v1"))["components"]["schemas"]["com.example.v1.Widget"]
    assert second["title"] == "New"


@served
async def test_unchanged_openapi_documents_are_cached(api):
    documents = OpenAPI(api.catalog)
    (stored,) = await defined(api, widgets())
    for key in ("apis/policy/v1", "apis/example.com/v1", "apis/example.com/v2"):
        await documents.v3_document(key)
    before = dict(documents._documents)
    await changed(api, stored, retitle)
    assert documents.hashes
    assert documents._documents == {key: before[key] for key in ("apis/policy/v1", "apis/example.com/v2")}


@served
async def test_cached_openapi_documents_are_bounded(api, monkeypatch):
    documents = OpenAPI(api.catalog)
    await documents.v3_document("apis/policy/v1")
    size = len(documents._documents["apis/policy/v1"][1])
    monkeypatch.setattr(openapi_module, "KEPT_BYTES", size + 1)
    await documents.v3_document("apis/node.k8s.io/v1")
    assert list(documents._documents) == ["apis/node.k8s.io/v1"]
    assert json.loads(await documents.v3_document("apis/policy/v1"))["openapi"] == "3.0.0"


@served
async def test_openapi_v2_has_custom_kinds(api):
    await defined(api, widgets())
    document = (await api.get("/openapi/v2")).json
    assert document["definitions"]["com.example.v1.Widget"]["properties"]["spec"] == NUMBER["properties"]["spec"]
    names = set(document["definitions"])
    assert {"io.k8s.api.core.v1.Pod", "com.example.v2alpha1.WidgetList"} <= names
    references = set(_references(document))
    assert references <= {f"#/definitions/{name}" for name in names} | {
        f"#/parameters/{name}" for name in document["parameters"]
    }
    packed = await api.get("/openapi/v2", headers={"accept": V2_PROTOBUF})
    assert b"com.example.v1.WidgetList" in packed.raw


def _references(value):
    if isinstance(value, list):
        for entry in value:
            yield from _references(entry)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for entry in value.values():
            yield from _references(entry)


@served
async def test_openapi_v2_is_rebuilt_only_where_it_changed(api):
    documents = OpenAPI(api.catalog)
    (stored,) = await defined(api, widgets())
    first = documents.v2_hash
    for protobuf in (False, True):
        await documents.v2_document(protobuf=protobuf)
    before = {protobuf: dict(parts) for protobuf, parts in documents._parts.items()}
    await changed(api, stored, retitle)
    assert documents.v2_hash != first
    for protobuf, parts in before.items():
        await documents.v2_document(protobuf=protobuf)
        now = documents._parts[protobuf]
        assert {key for key in now if now[key] is not parts[key]} == {"apis/example.com/v1"}


@served
async def test_openapi_v2_drops_deleted_definitions(api):
    documents = OpenAPI(api.catalog)
    (stored,) = await defined(api, widgets())
    await documents.v2_document(protobuf=False)

    def hide_one(spec):
        spec["versions"][2]["served"] = False

    await changed(api, stored, hide_one)
    document = json.loads(await documents.v2_document(protobuf=False))
    assert "com.example.v2.Widget" not in document["definitions"]
    assert "com.example.v1.Widget" in document["definitions"]
    assert "apis/example.com/v2" not in documents._parts[False]
