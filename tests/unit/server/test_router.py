"""From path and method to an endpoint: each kind of miss has its own answer."""

import pytest

from api_client import CM, DEPLOY, NS, PODS, cm, served

ROUTE = (404, "NotFound", "the server could not find the requested resource")
METHOD = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


@pytest.mark.parametrize(
    "path",
    ["/nope", "/apis/foo.bar/v1/x", "/apis/foo.bar/v1", "/apis/foo.bar", "/ui", "/swagger.json", "/API/v1", "/openapi"],
)
@served
async def test_unknown_group_or_page_is_a_plain_text_404(api, path):
    answer = await api.get(path)
    assert answer.status == 404
    assert answer.text == "404 page not found\n"
    assert answer.header("Content-Type") == "text/plain; charset=utf-8"
    assert answer.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        f"{NS}/default/foos",
        "/api/v1/foo",
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/foos",
        "/api/v1/pods/x",
        f"{NS}/default/nodes",
        f"{NS}/default/nodes/n",
        f"{CM}/x/status",
        "/apis/apps/v1/namespaces/default",
        "/api/v1/configmaps/a",
        "/api/v1/bindings",
    ],
)
@served
async def test_unknown_resource_of_a_known_group_is_a_status(api, path):
    answer = await api.get(path)
    assert answer.error == ROUTE
    assert answer["details"] == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{CM}/x"),
        ("PUT", CM),
        ("PATCH", CM),
        ("HEAD", CM),
        ("OPTIONS", CM),
        ("OPTIONS", f"{CM}/x"),
        ("FROB", CM),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", NS),
        ("PUT", "/version"),
        ("POST", "/apis"),
        ("DELETE", "/apis/apps/v1"),
    ],
)
@served
async def test_wrong_method_on_a_known_path_is_not_allowed(api, method, path):
    answer = await api.request(method, path)
    assert answer.status == 405
    assert answer.header("Allow") is None
    if method != "HEAD":
        assert answer.error == METHOD
        assert answer["details"] == {}


@pytest.mark.parametrize("path", ["/version", "/apis/apps/v1", "/api/v1"])
@served
async def test_head_is_not_for_pages_that_describe_the_api(api, path):
    assert (await api.request("HEAD", path)).status == 405


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/metrics", "/openapi/v2", "/openapi/v3"])
@served
async def test_head_works_on_plain_pages(api, path):
    answer = await api.request("HEAD", path)
    assert (answer.status, answer.raw) == (200, b"")


@served
async def test_every_resource_can_be_listed(api):
    for resource in api.catalog:
        if "list" not in resource.verbs:
            continue
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        answer = await api.get(f"{root}/{resource.resource}")
        assert answer.status == 200, (resource.resource, answer)
        assert answer["kind"] == f"{resource.kind}List"
        assert answer["apiVersion"] == resource.api_version
        assert isinstance(answer["items"], list)
        if resource.namespaced:
            assert (await api.get(f"{root}/namespaces/default/{resource.resource}")).status == 200


@served
async def test_every_subresource_has_an_endpoint(api):
    methods = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
    for resource in api.catalog:
        root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        scope = (
            f"{root}/namespaces/default/{resource.resource}" if resource.namespaced else f"{root}/{resource.resource}"
        )
        for sub in resource.subresources.values():
            for verb in sub.verbs:
                headers = {"content-type": "application/merge-patch+json" if verb == "patch" else "application/json"}
                answer = await api.request(
                    methods[verb],
                    f"{scope}/none/{sub.name}",
                    {"metadata": {"name": "none"}, "target": {"name": "n"}},
                    headers=headers,
                )
                # Whatever is wrong with the request, the endpoint is there.
                assert answer.status not in (405, 500, 501), (resource.resource, sub.name, verb, answer)
                assert answer.status != 404 or answer.error != ROUTE, (resource.resource, sub.name, verb)


@served
async def test_name_in_the_url_is_validated_before_the_body_is_read(api):
    for path in (f"{CM}/a%25b", f"{DEPLOY}/..", f"{PODS}/./log"):
        answer = await api.get(path)
        assert answer.error[:2] == (400, "BadRequest"), path
        assert answer.message.startswith("Name parameter invalid: ")


@served
async def test_scope_is_validated_before_the_body_is_read(api):
    answer = await api.post("/api/v1/configmaps", cm("a"))
    assert answer.error == METHOD
    assert (await api.put("/api/v1/configmaps/a", cm("a"))).error == ROUTE
    assert (await api.post(f"{NS}/default/nodes", {"metadata": {"name": "n"}})).error == ROUTE
    assert (await api.get("/api/v1/nodes"))["items"] == []


@served
async def test_index_names_what_is_served(api):
    paths = (await api.get("/"))["paths"]
    assert paths == sorted(paths)
    expected = {
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/livez/ping",
        "/metrics",
        "/openapi/v3",
        "/version",
    }
    assert expected <= set(paths)
    for path in paths:
        assert (await api.get(path)).status == 200, path
