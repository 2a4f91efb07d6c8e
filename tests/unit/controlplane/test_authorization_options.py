"""The modes of authorization: which can be chosen, and what each decides."""

import pytest

from api_client import CM, served
from kapi.api.user import User
from kapi.base.clock import SystemClock
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.authorizationoptions import DEFAULT_MODES, AuthorizationOptions, parse_authorization
from kapi.server.authz.attributes import Attributes
from kapi.server.configfile import ConfigFileError

BOB = User("bob", ("system:authenticated",))
ROOT = User("root", ("system:masters",))


def parse(modes=None, file=None, authorized=None, unauthorized=None, config=None):
    return parse_authorization(
        modes=modes,
        config_file=config,
        webhook_config_file=file,
        authorized_ttl=authorized,
        unauthorized_ttl=unauthorized,
    )


def test_node_and_rbac_are_the_default():
    assert AuthorizationOptions().modes == DEFAULT_MODES == ("Node", "RBAC")
    assert parse() == parse("Node,RBAC") == AuthorizationOptions()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("",), "at least one mode is needed"),
        (("rbac",), '"rbac" is not a valid mode; the modes are AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook'),
        (("RBAC,ABAC",), '"ABAC" is not a valid mode'),
        (("RBAC,Node,RBAC",), '"RBAC" is given more than once'),
        (("Webhook",), "needs --authorization-webhook-config-file"),
        (("RBAC", "/a/file"), "the file needs the mode"),
        (("Webhook", "/a/file", "soon"), "--authorization-webhook-cache-authorized-ttl: "),
        (("RBAC", None, None, None, "/a/file"), "--authorization-config can not be specified when"),
        ((None, None, "5m", None, "/a/file"), "--authorization-config can not be specified when"),
    ],
)
def test_mistakes_in_the_flags_are_refused_in_words(arguments, text):
    with pytest.raises(ValueError, match=text):
        parse(*arguments)


@pytest.mark.parametrize(
    ("modes", "bob", "root"),
    [
        (("AlwaysAllow",), True, True),
        (("AlwaysDeny",), False, True),
        (("RBAC",), False, True),
        (("Node", "RBAC"), False, True),
        (("AlwaysDeny", "AlwaysAllow"), True, True),
    ],
)
@served
async def test_each_mode_decides_and_masters_are_always_allowed(api, modes, bob, root):
    authorization = Authorization(AuthorizationOptions(modes), api.catalog, clock=api.clock)
    authorizer = authorization.authorizer
    assert not authorizer.may_wait
    for user, allowed in ((BOB, bob), (ROOT, root)):
        decision = await authorizer.authorize(Attributes(user, "get", resource="pods", namespace="default"))
        assert decision.allowed is allowed
    await authorization.close()


@served
async def test_always_deny_says_that_everything_is_forbidden(api):
    api.services.authorizer = Authorization(
        AuthorizationOptions(("AlwaysDeny",)), api.catalog, clock=api.clock
    ).authorizer
    answer = await api.request("GET", CM, transport=api.user("bob"))
    assert answer.status == 403
    assert answer.message.endswith(": Everything is forbidden.")
    assert api.services.authorizer.rules(BOB, "default").resources == []


@served
async def test_rules_of_always_allow_are_everything(api):
    authorizer = Authorization(AuthorizationOptions(("AlwaysAllow",)), api.catalog, clock=api.clock).authorizer
    assert authorizer.rules(BOB, "default").resources == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_a_webhook_configuration_with_mistakes_is_refused_with_its_file(tmp_path):
    file = tmp_path / "webhook.yaml"
    file.write_text("apiVersion: v1\nkind: Config\nclusters: []\n")

    @served
    async def check(api):
        options = AuthorizationOptions(("Webhook",), file)
        with pytest.raises(ConfigFileError, match=str(file)):
            Authorization(options, api.catalog, clock=SystemClock())

    check()


def test_a_webhook_is_asked_after_what_is_decided_locally(tmp_path):
    file = tmp_path / "webhook.yaml"
    cluster = "- name: a\n  cluster: {server: 'https://127.0.0.1:1/'}\n"
    context = "- name: a\n  context: {cluster: a}\n"
    file.write_text(f"apiVersion: v1\nkind: Config\nclusters:\n{cluster}contexts:\n{context}current-context: a\n")

    @served
    async def check(api):
        options = AuthorizationOptions(("RBAC", "Webhook"), file)
        authorization = Authorization(options, api.catalog, clock=SystemClock())
        assert authorization.authorizer.may_wait
        attributes = Attributes(ROOT, "get", resource="pods")
        assert authorization.authorizer.decide(attributes).allowed
        assert authorization.authorizer.decide(attributes._replace(user=BOB)) is None
        await authorization.close()

    check()
