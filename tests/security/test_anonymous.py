"""Anonymous users can read the public paths only, on any route, with any method.

CVE-2019-11248: a debugging page was served to everybody.
"""

import pytest
from every_route import RESOURCES, collection, identify, item, root

from api_client import Api, served
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.server.transport.message import Peer
from virtual_time import run

PUBLIC = {"/healthz", "/livez", "/readyz", "/version", "/version/"}
"""The allow-list. Adding to it is a decision, not an accident."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW")


def pages():
    """Every page the server itself lists at `/`, and some that are often there in others."""

    async def read():
        api = Api()
        await api.start()
        listed = (await api.get("/"))["paths"]
        listed += [f"/openapi/v3/{key}" for key in (await api.get("/openapi/v3"))["paths"]]
        await api.stop()
        return listed

    usual = [
        "/",
        "/debug/pprof",
        "/debug/flags/v",
        "/metrics/cadvisor",
        "/logs",
        "/configz",
        "/.well-known/openid-configuration",
    ]
    return [*run(read()), *usual]


def is_public(path):
    return path in PUBLIC


@pytest.mark.parametrize("path", pages())
@served
async def test_cve_2019_11248_anonymous_users_get_403_from_all_but_public_pages(api, path):
    await ensure_policy(api.transport, api.catalog)
    for method in METHODS:
        answer = await api.as_peer(method, path)
        if is_public(path) and method == "GET":
            assert answer.status == 200, (method, answer)
        else:
            assert answer.error[:2] == (403, "Forbidden"), (method, answer)
            assert 'User "system:anonymous" cannot' in answer.message


@pytest.mark.parametrize("resource", RESOURCES, ids=identify)
@served
async def test_cve_2019_11248_anonymous_users_get_403_from_every_resource(api, resource):
    await ensure_policy(api.transport, api.catalog)
    paths = [collection(resource), f"{root(resource)}/{resource.resource}", item(resource)]
    paths += [f"{item(resource)}/{sub}" for sub in resource.subresources]
    paths += [f"{collection(resource)}?watch=true", f"{root(resource)}/watch/{resource.resource}", f"{root(resource)}"]
    before = api.revision
    for path in paths:
        for method in METHODS:
            answer = await api.as_peer(method, path, body=b"{}", headers={"content-type": "application/json"})
            assert answer.error[:2] == (403, "Forbidden"), (method, path, answer)
    assert api.revision == before


@pytest.mark.parametrize(
    "credentials", ["Bearer wrong", "bearer a-token-and-more x", "Bearer a-toke", "BEARER A-TOKEN"]
)
@served
async def test_invalid_tokens_are_unauthorized_even_on_public_pages(api, credentials):
    for path in ("/api/v1/secrets", "/healthz", "/version", "/metrics"):
        answer = await api.as_peer("GET", path, headers={"authorization": credentials})
        assert answer.error[:2] == (401, "Unauthorized"), answer


@pytest.mark.parametrize(
    "credentials", ["Bearer ", "Bearer", "Basic YTpi", "bearer  a-token x", "a-token", "Negotiate abc", ""]
)
@served
async def test_credentials_that_are_no_token_are_those_of_an_anonymous_user(api, credentials):
    await ensure_policy(api.transport, api.catalog)
    for path, status in (("/api/v1/secrets", 403), ("/metrics", 403), ("/healthz", 200)):
        assert (await api.as_peer("GET", path, headers={"authorization": credentials})).status == status


@served
async def test_a_user_without_roles_can_discover_the_api_and_review_itself_and_no_more(api):
    await ensure_policy(api.transport, api.catalog)
    headers = {"authorization": "Bearer a-token"}
    for path in ("/api/v1/secrets", "/metrics", "/", "/readyz/etcd"):
        assert (await api.as_peer("GET", path, headers=headers)).status == 403
    for path in ("/readyz", "/api", "/apis", "/openapi/v2", "/version"):
        assert (await api.as_peer("GET", path, headers=headers)).status == 200
    review = {**headers, "content-type": "application/json"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    assert (await api.as_peer("POST", path, headers=review, body=b"{}")).status == 201


@served
async def test_front_proxy_headers_do_not_authenticate(api):
    """Whatever a front proxy would say about the user means nothing here, and acting as another is refused aloud."""
    claims = {
        "x-remote-user": "kubernetes-admin",
        "x-remote-group": "system:masters",
        "x-forwarded-user": "root",
        "x-forwarded-for": "127.0.0.1",
        "x-original-url": "/healthz",
        "x-http-method-override": "GET",
    }
    for header, value in claims.items():
        assert (await api.as_peer("GET", "/api/v1/secrets", headers={header: value})).status == 403
    for header in ("impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes"):
        answer = await api.as_peer("GET", "/healthz", headers={header: "system:masters"})
        assert answer.status in (400, 403)
    local = Peer("127.0.0.1")
    assert (await api.as_peer("GET", "/api/v1/secrets", peer=local)).status == 403
