"""Match conditions of webhooks and policies: what expressions see, and what errors mean."""

import asyncio
import datetime as dt
import threading

import pytest

from kapi.api.meta import GroupVersionKind
from kapi.api.user import User
from kapi.registry.deletion import DeleteOptions
from kapi.registry.request import CREATE, DELETE, UPDATE, Write, WriteOptions
from kapi.registry.resource import Resource
from kapi.server.admission.celvariables import AdmittedObject
from kapi.server.admission.expressions import LOOP_ALLOWANCE
from kapi.server.admission.matchconditions import Match, MatchConditions
from kapi.server.authz.authorizer import ALLOW, NO_OPINION, Authorizer

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", "deployment", True, ("create",))
POD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"}}}
MATCH = Match(matches=True)
ALICE = User("alice", ("system:authenticated",), "7", {"scope": ["x"]})


class Local:
    """Allows what its function says."""

    def __init__(self, allows):
        self._allows = allows

    def decide(self, attributes):
        return ALLOW if self._allows(attributes) else NO_OPINION

    def rules(self, user, namespace):
        raise NotImplementedError


class Remote:
    """Waits before it allows everything."""

    def __init__(self):
        self.threads = []

    async def authorize(self, attributes):
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread())
        return ALLOW

    def rules(self, user, namespace):
        raise NotImplementedError


def write_of(operation=CREATE, *, options=None, namespace="default", name="web", subresource=""):
    return Write(
        operation,
        DEPLOYMENTS,
        lookup=None,
        now=dt.datetime.now(dt.UTC),
        namespace=namespace,
        name=name,
        subresource=subresource,
        store=object(),
        user=ALICE,
        options=options or WriteOptions(field_manager="kubectl", given_validation="Warn"),
    )


def matched(*expressions, obj=POD, old=None, write=None, ignores_failure=False, authorizer=None, resource=DEPLOYMENTS):
    conditions = MatchConditions(
        [{"name": f"c{place}", "expression": one} for place, one in enumerate(expressions)],
        ignores_failure=ignores_failure,
    )
    admitted = AdmittedObject(write or write_of(), obj, old, resource, resource.gvk)

    async def main():
        return await conditions.match(admitted, authorizer or Authorizer())

    return asyncio.run(main())


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.labels.a == 'b'",
        "oldObject == null",
        "namespaceObject == null",
        "request.operation == 'CREATE'",
        "request.namespace == 'default' && request.name == 'web'",
        "request.kind == request.requestKind && request.kind.kind == 'Deployment'",
        "request.resource.group == 'apps' && request.resource.resource == 'deployments'",
        "request.userInfo.username == 'alice' && 'system:authenticated' in request.userInfo.groups",
        "request.userInfo.uid == '7' && request.userInfo.extra['scope'] == ['x']",
        "!request.dryRun",
        "!has(request.subResource) && !has(request.requestSubResource)",
        "request.options.kind == 'CreateOptions' && request.options.apiVersion == 'meta.k8s.io/v1'",
        "request.options.fieldManager == 'kubectl' && request.options.fieldValidation == 'Warn'",
        "has(request.options.fieldManager) && !has(request.options.dryRun)",
    ],
)
def test_conditions_see_the_request(expression):
    assert matched(expression) == MATCH


def test_a_deletion_has_the_old_object_only():
    options = DeleteOptions(grace_period=0, propagation="Orphan", uid="u", dry_run=True)
    conditions = (
        "object == null",
        "oldObject.kind == 'Deployment'",
        "request.dryRun",
        "request.options.kind == 'DeleteOptions' && request.options.dryRun == ['All']",
        "request.options.gracePeriodSeconds == 0 && request.options.propagationPolicy == 'Orphan'",
        "request.options.preconditions == {'uid': 'u'} && !has(request.options.orphanDependents)",
    )
    assert matched(*conditions, obj=None, old=POD, write=write_of(DELETE, options=options)) == MATCH


def test_a_generated_name_is_seen_once_it_is_there():
    write = write_of(name="")
    assert matched("!has(request.name)", obj={"metadata": {"generateName": "a-"}}, write=write) == MATCH
    assert matched("request.name == 'a-1'", obj={"metadata": {"name": "a-1"}}, write=write) == MATCH


def test_a_subresource_is_named():
    write = write_of(UPDATE, subresource="scale", options=WriteOptions(kind="PatchOptions", force=True))
    conditions = ("request.subResource == 'scale'", "request.requestSubResource == 'scale'")
    assert matched(*conditions, "request.options.kind == 'UpdateOptions'", write=write) == MATCH


def test_another_matched_version_shows_in_the_kind_and_not_in_the_resource():
    older = Resource("apps", "v1beta1", "deployments", "Deployment", "deployment", True, ("create",))
    conditions = ("request.kind.version == 'v1beta1'", "request.requestKind.version == 'v1'")
    assert matched(*conditions, "request.resource.version == 'v1'", resource=older) == MATCH


def test_the_first_false_condition_is_reported():
    assert matched("true", "1 > 2", "false") == Match(matches=False, failed_condition="c1")


def test_a_false_condition_outweighs_an_error():
    assert matched("object.spec.x == 1", "false") == Match(matches=False, failed_condition="c1")


def test_an_error_refuses_or_means_no_match():
    failed = matched("object.spec.x == 1", "true", "object.y")
    assert failed.error == (
        "[expression 'object.spec.x == 1' resulted in error: no such key: spec, "
        "compilation error: must evaluate to bool but got dyn]"
    )
    assert matched("object.spec.x == 1", ignores_failure=True) == Match(matches=False)


def test_a_condition_that_cannot_be_compiled_is_an_error():
    failed = matched("object.")
    assert failed.error.startswith("compilation error: compilation failed: ERROR: <input>:1:8: Syntax error:")


def test_a_null_namespace_has_no_fields():
    assert matched("namespaceObject.metadata.name == 'a'").error == (
        "expression 'namespaceObject.metadata.name == 'a'' resulted in error: no such key: metadata"
    )


def test_conditions_ask_a_local_authorizer_on_the_event_loop():
    asked = []

    def allows(attributes):
        asked.append((threading.current_thread(), attributes))
        return attributes.verb == "create"

    authorizer = Authorizer(Local(allows))
    condition = "authorizer.requestResource.check('{}').allowed()"
    assert matched(condition.format("create"), authorizer=authorizer) == MATCH
    assert matched(condition.format("delete"), authorizer=authorizer) == Match(matches=False, failed_condition="c0")
    thread, attributes = asked[0]
    assert thread is threading.main_thread()
    assert (attributes.group, attributes.version, attributes.resource) == ("apps", "*", "deployments")
    assert (attributes.namespace, attributes.name, attributes.user) == ("default", "web", ALICE)


def test_conditions_wait_for_a_remote_authorizer_in_a_thread():
    remote = Remote()
    authorizer = Authorizer(Local(lambda attributes: False), remote)
    condition = "authorizer.group('').resource('pods').fieldSelector('a=b').check('list').allowed()"
    assert matched(condition, authorizer=authorizer) == MATCH
    assert remote.threads == [threading.main_thread()]


def test_expensive_conditions_are_evaluated_in_a_thread():
    seen = []

    def allows(attributes):
        seen.append(attributes.path)
        return True

    many = list(range(LOOP_ALLOWANCE))
    expensive = "authorizer.path('/x').check('get').allowed() && object.items.all(i, i >= 0)"
    assert matched(expensive, obj={"items": many}, authorizer=Authorizer(Local(allows))) == MATCH
    # Asked on the event loop, and again by the thread that evaluates the expression from the start.
    assert seen == ["/x", "/x"]


def test_conditions_have_one_budget():
    nested = "object.items.all(i, object.items.all(j, j >= 0))"
    too_much = matched(*[nested] * 4, obj={"items": list(range(400))})
    assert too_much.error == (
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )
    one = matched(nested, obj={"items": list(range(1000))})
    assert one.error == (f"expression '{nested}' resulted in error: operation cancelled: actual cost limit exceeded")


def test_the_kind_of_a_subresource_is_the_one_of_its_object():
    scale = GroupVersionKind("autoscaling", "v1", "Scale")
    admitted = AdmittedObject(write_of(UPDATE, subresource="scale"), POD, POD, DEPLOYMENTS, scale)
    assert admitted.request()["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
