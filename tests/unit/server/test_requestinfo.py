"""What a request asks for, and the paths that try to ask for something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client import CM, NS, cm, served
from kapi.api.errors import ApiError, InternalServerError
from kapi.server.requestinfo import MAX_PARAMETERS, is_true, parse_query, request_info


def _info(method, target):
    path, _, query = target.partition("?")
    return request_info(method, path, parse_query(query))


def _read(method, target):
    info = _info(method, target)
    return (info.verb, info.group, info.version, info.namespace, info.resource, info.name, info.subresource)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/nodes", ("list", "", "v1", "", "nodes", "", "")),
        ("GET", "/api/v1/nodes/n", ("get", "", "v1", "", "nodes", "n", "")),
        ("HEAD", "/api/v1/nodes/n", ("get", "", "v1", "", "nodes", "n", "")),
        ("GET", "/api/v1/nodes?watch=1", ("watch", "", "v1", "", "nodes", "", "")),
        ("GET", "/api/v1/nodes/n?watch=1", ("get", "", "v1", "", "nodes", "n", "")),
        ("POST", "/api/v1/nodes", ("create", "", "v1", "", "nodes", "", "")),
        ("PUT", "/api/v1/nodes/n", ("update", "", "v1", "", "nodes", "n", "")),
        ("PATCH", "/api/v1/nodes/n/status", ("patch", "", "v1", "", "nodes", "n", "status")),
        ("DELETE", "/api/v1/nodes/n", ("delete", "", "v1", "", "nodes", "n", "")),
        ("DELETE", "/api/v1/nodes", ("deletecollection", "", "v1", "", "nodes", "", "")),
        ("OPTIONS", "/api/v1/nodes", ("", "", "v1", "", "nodes", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "v1", "", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "v1", "a", "namespaces", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "v1", "a", "namespaces", "a", "finalize")),
        ("GET", "/api/v1/namespaces/a/status", ("get", "", "v1", "a", "namespaces", "a", "status")),
        ("GET", "/api/v1/namespaces/a/pods", ("list", "", "v1", "a", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", ("get", "", "v1", "a", "pods", "p", "")),
        ("GET", "/api/v1/namespaces/a/pods/p/log", ("get", "", "v1", "a", "pods", "p", "log")),
        ("GET", "/apis/apps/v1/deployments", ("list", "apps", "v1", "", "deployments", "", "")),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/d", ("get", "apps", "v1", "a", "deployments", "d", "")),
        ("GET", "/api/v1/watch/pods", ("watch", "", "v1", "", "pods", "", "")),
        ("GET", "/api/v1/watch/namespaces/a/pods/p", ("watch", "", "v1", "a", "pods", "p", "")),
        ("GET", "/api/v1/nodes/", ("list", "", "v1", "", "nodes", "", "")),
        ("GET", "/api/v1/nodes/n/", ("get", "", "v1", "", "nodes", "n", "")),
        ("GET", "/api/v1/nodes/a%2Db", ("get", "", "v1", "", "nodes", "a-b", "")),
        ("GET", "/api/v1/nodes/%2e%2e", ("get", "", "v1", "", "nodes", "..", "")),
    ],
)
def test_requests_for_resources(method, target, expected):
    assert _info(method, target).is_resource
    assert _read(method, target) == expected


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/api/", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/API/v1/nodes", "/metrics"],
)
def test_requests_for_something_else(path):
    info = _info("GET", path)
    assert not info.is_resource
    assert info.verb == "get"
    assert info.path == path


def test_what_follows_a_subresource_is_kept():
    assert _info("GET", "/api/v1/namespaces/a/pods/p/proxy/x/y").rest == ("x", "y")


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name%3Dx", "x"),
        ("metadata.name%3D%3Dx,metadata.namespace%3Dy", "x"),
        ("metadata.name!%3Dx", ""),
        ("metadata.name%3Da/b", ""),
        ("metadata.name%3D..", ""),
        ("metadata.name", ""),
        ("spec.x%3Dmetadata.name", ""),
    ],
)
def test_name_pinned_by_a_selector_is_the_name(selector, name):
    for watch in ("0", "1"):
        assert _info("GET", f"/api/v1/pods?fieldSelector={selector}&watch={watch}").name == name
    # It is for reading only: a deletion of a collection stays one.
    assert _info("DELETE", f"/api/v1/pods?fieldSelector={selector}").verb == "deletecollection"


@pytest.mark.parametrize("path", ["/api/v1/watch", "/apis/apps/v1/watch", "/api/v1/watch/"])
def test_watch_path_without_a_resource_is_malformed(path):
    with pytest.raises(InternalServerError, match="unable to determine kind and namespace from url"):
        _info("GET", path)


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/a%2fb", "/api/v1//nodes", "/api//v1/nodes", "//api/v1/nodes", "/api/v1/nodes//"]
)
def test_paths_with_slashes_where_none_belong_are_not_found(path):
    with pytest.raises(ApiError) as caught:
        _info("GET", path)
    assert caught.value.code == 404


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/a%00b", "/api/v1/nodes/%0a", "/api/v1/nodes/%7f", "/api/v1/nodes/%ff", "nodes"]
)
def test_paths_that_cannot_be_text_are_bad_requests(path):
    with pytest.raises(ApiError) as caught:
        _info("GET", path)
    assert caught.value.code == 400


@given(st.text(alphabet="/%.ab2efs0?", max_size=30))
def test_random_paths_parse_into_clean_segments_or_are_refused(text):
    """For any path no segment contains a slash, and only API errors are raised."""
    try:
        info = request_info("GET", "/" + text.replace("?", ""), parse_query(""))
    except ApiError:
        return
    for part in (info.group, info.version, info.namespace, info.resource, info.name, info.subresource, *info.rest):
        assert "/" not in part
        assert "\0" not in part


# -- the query --------------------------------------------------------------------------------------------------------


def test_first_of_repeated_parameters_counts():
    assert dict(parse_query("a=1&a=2&b=&c")) == {"a": "1", "b": "", "c": ""}


def test_parameters_are_decoded():
    assert parse_query("labelSelector=a%3Db%2Cc+in+(d)")["labelSelector"] == "a=b,c in (d)"


def test_query_is_shared_and_cannot_be_changed():
    with pytest.raises(TypeError):
        parse_query("a=1")["b"] = "2"


@pytest.mark.parametrize("query", ["a=%ff", "&".join(f"p{n}=1" for n in range(MAX_PARAMETERS + 1))])
def test_bad_queries_are_bad_requests(query):
    with pytest.raises(ApiError) as caught:
        parse_query(query)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [("w", True), ("w=", True), ("w=1", True), ("w=foo", True), ("w=False", False), ("w=0", False), ("x=1", False)],
)
def test_boolean_parameters_are_true_unless_0_or_false(query, expected):
    assert is_true(parse_query(query), "w") is expected


# -- through the server -----------------------------------------------------------------------------------------------

ROUTE = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{CM}/", 200),
        (f"{CM}/a/", 200),
        (f"{CM}/%61", 200),
        (f"{CM}/..", 400),
        (f"{CM}/%2e%2e", 400),
        (f"{CM}/.", 400),
        (f"{CM}/a%2fb", 404),
        (f"{CM}/a%00", 400),
        (f"{CM}//a", 404),
        (f"{NS}//configmaps/a", 404),
        (f"{NS}/../configmaps", 400),
        (f"{NS}/default/../kube-system/configmaps", 404),
        (f"{CM}/../../kube-system/configmaps/a", 400),
    ],
)
@served
async def test_path_traversal_is_refused(api, path, status):
    await api.made(CM, cm("a"))
    await api.made(f"{NS}/kube-system/configmaps", cm("a", data={"hidden": "yes"}))
    answer = await api.get(path)
    assert answer.status == status, answer
    assert b"hidden" not in answer.raw


@served
async def test_dots_as_a_name_are_refused_with_a_reason(api):
    answer = await api.get(f"{CM}/..")
    assert answer.error == (400, "BadRequest", "Name parameter invalid: \"..\": may not be '..'")


@served
async def test_malformed_watch_is_a_text_answer(api):
    answer = await api.get("/api/v1/watch")
    assert answer.status == 500
    assert answer.header("Content-Type") == "text/plain; charset=utf-8"
    assert answer.text.startswith('Internal Server Error: "/api/v1/watch": failed to create RequestInfo')


@pytest.mark.parametrize("path", ["//", "//api", "//healthz"])
@served
async def test_doubled_slash_at_the_root_is_not_found(api, path):
    assert (await api.get(path)).status == 404
