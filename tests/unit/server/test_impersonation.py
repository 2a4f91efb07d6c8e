"""Impersonation: the headers that ask for it, and the user that results. `test_authorization_programs` has the rights."""

import pytest

from api_client import CM, served
from kapi.server.authz import impersonation
from kapi.server.authz.impersonation import is_impersonated, wanted_user
from kapi.server.transport.framing import RequestReader
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Peer

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_a_header_that_is_given_twice_names_two_groups_and_a_comma_separates_none():
    reader = RequestReader(Peer("192.0.2.1"), Limits())
    lines = (
        b"GET / HTTP/1.1",
        b"Host: h",
        b"Impersonate-User: zoe",
        b"Impersonate-Group: a, b",
        b"Impersonate-Group: c",
    )
    lines += (b"Impersonate-Extra-Example.com%2fKey: v", b"impersonate-extra-example.com%2fkey: w", b"X: 1", b"X: 2")
    reader.feed(b"\r\n".join(lines) + b"\r\n\r\n")
    headers = reader.queue[0][0].headers
    assert headers["x"] == "1, 2"
    user = wanted_user(headers)
    assert (user.name, user.groups) == ("zoe", ("a, b", "c"))
    assert user.extra == {"example.com/key": ["v", "w"]}


@pytest.mark.parametrize(
    ("headers", "expected"), [({"impersonate-user": "a"}, True), ({"x-impersonate-user": "a"}, False), ({}, False)]
)
def test_headers_of_impersonation_are_found(headers, expected):
    assert is_impersonated(headers) is expected


def test_an_empty_user_without_anything_else_is_no_impersonation():
    assert wanted_user({"impersonate-user": ""}) is None


@served
async def test_a_service_account_acts_as_the_node_it_runs_on_and_no_other(api):
    rules = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:associated-node"]},
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["impersonate-on:associated-node:create"],
        },
    ]
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "agent"}, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "agent", "namespace": "default"}]
    reference = {"kind": "ClusterRole", "name": "agent"}
    binding = {"metadata": {"name": "agent"}, "roleRef": reference, "subjects": subjects}
    await api.made(f"{RBAC}/clusterrolebindings", binding)

    async def ask(node, extra):
        user = impersonation.User("system:serviceaccount:default:agent", ("system:authenticated",), "", extra)
        wanted = impersonation.User(f"system:node:{node}")
        request = impersonation.Attributes(user, "create", "authentication.k8s.io", "v1", "selfsubjectreviews")
        return await impersonation.Impersonator().impersonate(api.services.authorizer, request, wanted)

    acting = await ask("n1", {impersonation.NODE_NAME: ["n1"]})
    assert (acting.user.name, acting.user.groups) == ("system:node:n1", ("system:nodes", "system:authenticated"))
    assert acting.constraint == "impersonate:associated-node"
    for node, extra in (
        ("n2", {impersonation.NODE_NAME: ["n1"]}),
        ("n1", {}),
        ("n1", {impersonation.NODE_NAME: ["n1", "n2"]}),
    ):
        with pytest.raises(impersonation.Forbidden):
            await ask(node, extra)


@served
async def test_what_an_impersonated_request_creates_is_checked_for_escalation_as_that_user(api):
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    headers = {"impersonate-user": "zoe"}
    answer = await api.post(f"{RBAC}/clusterroles", role, headers=headers)
    assert answer.error[:2] == (403, "Forbidden")
    assert 'User "zoe" cannot create' in answer.message


@pytest.mark.plain(reason="replaces the number of users that are remembered")
@served
async def test_remembered_modes_are_bounded(api, monkeypatch):
    monkeypatch.setattr(impersonation, "REMEMBERED_USERS", 3)
    impersonator = impersonation.Impersonator()
    for number in range(10):
        requestor = impersonation.User(f"u{number}", ("system:masters",))
        request = impersonation.Attributes(requestor, "get", resource="pods")
        await impersonator.impersonate(api.services.authorizer, request, impersonation.User("zoe"))
        assert len(impersonator._last_mode) <= 3


@served
async def test_impersonation_does_not_change_who_is_refused(api):
    """A refusal names the user whose right is missing: the sender's, or that of the user it acts as."""
    refused = await api.request("GET", CM, headers={"impersonate-user": "zoe"}, transport=api.user("bob"))
    assert 'User "bob" cannot impersonate-on:user-info:list' in refused.message
    refused = await api.get(CM, headers={"impersonate-user": "zoe"})
    assert 'User "zoe" cannot list' in refused.message
