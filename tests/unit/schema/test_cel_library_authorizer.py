"""The authorizer library: how checks are built, what they ask, and what they cost."""

import pytest

from kapi.api.user import User
from kapi.schema.cel import Environment, EvaluationError, ExpressionErrors
from kapi.schema.cel.libraries.authorizer import (
    AUTHORIZER_TYPE,
    CHECK_COST,
    RESOURCE_CHECK_TYPE,
    Answer,
    Authorizer,
    PathCheck,
    ResourceCheck,
)

ENVIRONMENT = Environment({"authorizer": AUTHORIZER_TYPE, "authorizer.requestResource": RESOURCE_CHECK_TYPE})
ALICE = User("alice", ("system:authenticated",))


class Asked:
    """Records what is asked, and gives one answer to everything."""

    def __init__(self, answer):
        self.answer = answer
        self.checks = []

    def __call__(self, check, verb):
        self.checks.append((check, verb))
        return self.answer


def evaluated(source, answer=Answer(allowed=True, reason="because")):  # noqa: B008 - immutable
    asked = Asked(answer)
    authorizer = Authorizer(ALICE, asked)
    request = ResourceCheck(authorizer, "apps", "deployments", "", "default", "web")
    variables = {"authorizer": authorizer, "authorizer.requestResource": request}
    value, cost = ENVIRONMENT.compile(source).evaluate(variables)
    return value, cost, asked.checks


def fields(check):
    return {
        name: getattr(check, name)
        for name in ("group", "resource", "subresource", "namespace", "name", "field_selector", "label_selector")
    }


def test_a_resource_check_is_built_of_its_parts():
    source = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('b')"
        ".fieldSelector('x=y').labelSelector('c in (d)').check('update').allowed()"
    )
    value, _, [(check, verb)] = evaluated(source)
    assert value is True
    assert verb == "update"
    assert fields(check) == {
        "group": "apps",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "a",
        "name": "b",
        "field_selector": "x=y",
        "label_selector": "c in (d)",
    }


def test_the_resource_of_the_request_is_checked():
    value, _, [(check, verb)] = evaluated("authorizer.requestResource.check('create').reason()")
    assert (value, verb) == ("because", "create")
    assert (check.group, check.resource, check.namespace, check.name) == ("apps", "deployments", "default", "web")


def test_a_path_is_checked_for_a_service_account():
    source = "authorizer.serviceAccount('ns', 'robot').path('/healthz').check('get').allowed()"
    _, _, [(check, _)] = evaluated(source)
    assert isinstance(check, PathCheck)
    assert check.path == "/healthz"
    assert check.authorizer.user.name == "system:serviceaccount:ns:robot"
    assert check.authorizer.user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")


def test_a_decision_has_its_error():
    answer = Answer(allowed=False, error="no connection")
    assert evaluated("authorizer.path('/x').check('get').errored()", answer)[0] is True
    assert evaluated("authorizer.path('/x').check('get').error()", answer)[0] == "no connection"
    assert evaluated("authorizer.path('/x').check('get').error()")[0] == ""
    assert evaluated("authorizer.path('/x').check('get').errored()")[0] is False


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('ns', 'Robot').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
        (
            "authorizer.serviceAccount('n.s', 'robot').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
        ("authorizer.path('/') == authorizer.path('/')", "no such overload"),
    ],
)
def test_wrong_arguments_are_errors(source, text):
    with pytest.raises(EvaluationError, match=text):
        evaluated(source)


def test_an_expression_can_make_two_checks_and_no_more():
    one = "authorizer.path('/x').check('get').allowed()"
    assert evaluated(one)[1] == CHECK_COST + 3
    assert evaluated(f"{one} && {one}")[1] < 1_000_000
    program = ENVIRONMENT.compile(" && ".join([one] * 3))
    with pytest.raises(Exception, match="actual cost limit exceeded"):
        program.evaluate({"authorizer": Authorizer(ALICE, Asked(Answer(allowed=True)))})


def test_a_selector_costs_by_its_length():
    plain = evaluated("authorizer.group('').resource('pods').check('list').allowed()")[1]
    selected = evaluated("authorizer.group('').resource('pods').fieldSelector('0123456789').check('list').allowed()")[1]
    assert selected - plain == 10 + 1 + 5 * 50


def test_the_functions_belong_to_their_types():
    with pytest.raises(ExpressionErrors, match="found no matching overload for 'check'"):
        ENVIRONMENT.compile("authorizer.check('get')")
