"""Admission webhooks over HTTPS, as an API server calls them."""

import base64
import json

import pytest
import structlog.testing
from webhook_rig import GROUP, Network, admission, called, network

from kapi.api.builtin.core_v1 import Pod
from kapi.api.errors import Conflict
from kapi.api.patch.jsonpatch import apply, decode_operations
from kapi.controller.webhook import Allowed, Denied


def validator(function, cls=Network):
    return lambda server: server.validating("/v", cls)(function)


def mutator(function, *cls):
    return lambda server: server.mutating("/m", *cls)(function)


def response_of(register, path, review):
    """What is answered to one review."""
    found = []

    async def test(caller):
        found.append(await caller.respond(path, review))

    called(register, test)
    return found[0]


def patched(response, obj):
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    return apply(json.loads(json.dumps(obj)), decode_operations(json.loads(base64.b64decode(response["patch"]))))


# -- validating -------------------------------------------------------------------------------------------------------


def test_a_function_that_returns_nothing_allows():
    assert response_of(validator(lambda request: None), "/v", admission(network())) == {"allowed": True}


def test_the_function_sees_the_whole_request():
    seen = []
    review = admission(
        network("10.1.0.0/16"),
        operation="UPDATE",
        old=network("10.2.0.0/16"),
        dryRun=True,
        subResource="status",
        requestSubResource="status",
        requestKind={"group": GROUP, "version": "v1beta1", "kind": "Network"},
    )

    async def validate(request):
        seen.append(request)

    assert response_of(validator(validate), "/v", review)["allowed"] is True
    (request,) = seen
    assert (request.uid, request.operation, request.dry_run) == ("705ab4f5", "UPDATE", True)
    assert (request.kind, request.resource.resource) == (Network.gvk, "networks")
    assert (request.sub_resource, request.request_sub_resource) == ("status", "status")
    assert request.request_kind.version == "v1beta1"
    assert (request.namespace, request.name, request.options["kind"]) == ("default", "a", "CreateOptions")
    assert (request.user.username, request.user.groups) == ("ann", ("system:authenticated",))
    assert request.user.extra == {"k": ["v"]}
    assert isinstance(request.object, Network)
    assert (request.object.spec.cidr, request.old_object.spec.cidr) == ("10.1.0.0/16", "10.2.0.0/16")


def test_a_deletion_has_the_old_object_only():
    def validate(request):
        assert request.object is None
        assert request.subject is request.old_object
        raise Denied(f"{request.subject.metadata.name} stays", code=409)

    review = admission(None, operation="DELETE", old=network())
    response = response_of(validator(validate), "/v", review)
    assert response == {
        "allowed": False,
        "status": {"status": "Failure", "message": "a stays", "reason": "Conflict", "code": 409},
    }


def test_warnings_and_audit_annotations_go_back():
    def validate(request):
        request.warn("first")
        return Allowed(warnings=["second"], audit_annotations={"checked": "yes"})

    assert response_of(validator(validate), "/v", admission(network())) == {
        "allowed": True,
        "warnings": ["first", "second"],
        "auditAnnotations": {"checked": "yes"},
    }


def test_a_denial_says_why_and_warns():
    def validate(request):
        raise Denied("no", reason="Because", warnings=["really"])

    response = response_of(validator(validate), "/v", admission(network()))
    assert response["status"] == {"status": "Failure", "message": "no", "reason": "Because", "code": 403}
    assert (response["allowed"], response["warnings"]) == (False, ["really"])


def test_an_api_error_brings_its_own_status():
    def validate(request):
        raise Conflict("taken")

    status = response_of(validator(validate), "/v", admission(network()))["status"]
    assert (status["code"], status["reason"], status["message"]) == (409, "Conflict", "taken")


def test_a_mistake_is_a_500_that_says_nothing_and_is_logged():
    def validate(request):
        raise RuntimeError("the password is swordfish")

    with structlog.testing.capture_logs() as logs:
        response = response_of(validator(validate), "/v", admission(network()))
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "swordfish" not in json.dumps(response)
    (entry,) = [log for log in logs if log["log_level"] == "error"]
    assert entry["object"] == "default/a"
    assert str(entry["exc_info"]) == "the password is swordfish"


def test_a_verdict_that_is_none_is_a_mistake():
    response = response_of(validator(lambda request: True), "/v", admission(network()))
    assert (response["allowed"], response["status"]["code"]) == (False, 500)


def test_what_the_class_cannot_hold_is_refused_with_the_place():
    response = response_of(validator(lambda request: None), "/v", admission(network(cidr=5)))
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert "$.spec.cidr" in response["status"]["message"]


def test_another_kind_than_the_class_is_refused():
    response = response_of(validator(lambda request: None, Pod), "/v", admission(network()))
    assert response["status"]["message"] == f"this webhook is for Pod of v1, not Network of {GROUP}/v1"


def test_without_a_class_objects_are_dictionaries():
    seen = []
    register = lambda server: server.validating("/v")(lambda request: seen.append(request.object))  # noqa: E731
    response_of(register, "/v", admission(network()))
    assert seen == [network()]


@pytest.mark.parametrize("code", [200, 399, 600])
def test_a_denial_has_the_code_of_an_error(code):
    with pytest.raises(ValueError, match="400 to 599"):
        Denied("no", code=code)


# -- mutating ---------------------------------------------------------------------------------------------------------


def test_what_is_changed_in_place_becomes_a_patch_and_unseen_fields_stay():
    def fill_in(obj, request):
        obj.spec.gateway = "10.0.0.1"
        obj.metadata.labels = {"filled": "in"}

    response = response_of(mutator(fill_in, Network), "/m", admission(network()))
    wanted = network(gateway="10.0.0.1")
    wanted["metadata"]["labels"] = {"filled": "in"}
    assert patched(response, network()) == wanted


def test_what_is_returned_becomes_a_patch():
    async def replace(obj, request):
        return {**obj, "spec": {"cidr": "192.168.0.0/16"}}

    response = response_of(mutator(replace), "/m", admission(network()))
    assert patched(response, network())["spec"] == {"cidr": "192.168.0.0/16"}


def test_without_changes_there_is_no_patch():
    def look(obj, request):
        request.warn("seen")

    response = response_of(mutator(look, Network), "/m", admission(network()))
    assert response == {"allowed": True, "warnings": ["seen"]}


def test_a_mutating_function_can_deny():
    def deny(obj, request):
        raise Denied("not so", code=422)

    response = response_of(mutator(deny, Network), "/m", admission(network()))
    assert "patch" not in response
    assert (response["allowed"], response["status"]["reason"]) == (False, "Invalid")


def test_a_deletion_is_not_mutated():
    review = admission(None, operation="DELETE", old=network())
    assert response_of(mutator(lambda obj, request: 1 / 0, Network), "/m", review) == {"allowed": True}


# -- what is no review ------------------------------------------------------------------------------------------------


def without(review, *path):
    *parents, last = path
    place = review
    for key in parents:
        place = place[key]
    del place[last]
    return review


@pytest.mark.parametrize(
    "body, text",
    [
        (b"{", "unexpected end of JSON input"),
        (b"[]", "expected an object of kind AdmissionReview"),
        ({**admission(network()), "apiVersion": "admission.k8s.io/v1beta1"}, "got admission.k8s.io/v1beta1"),
        ({**admission(network()), "kind": "ConversionReview"}, "got admission.k8s.io/v1, ConversionReview"),
        (without(admission(network()), "request"), "the review has no request"),
        (without(admission(network()), "request", "uid"), "the request has no uid"),
        (without(admission(network()), "request", "kind"), "kind"),
        (admission(network(), operation="PATCH"), "request.operation is 'PATCH'"),
        (admission(network(), namespace=5), "$.namespace"),
    ],
)
def test_a_malformed_review_is_a_400(body, text):
    async def test(caller):
        status, answer = await caller.post("/v", body)
        assert status == 400
        assert text in answer

    called(validator(lambda request: None), test)


def test_other_paths_methods_and_types_are_refused():
    async def test(caller):
        assert (await caller.post("/else", admission(network())))[0] == 404
        assert (await caller.post("/v", b"x", headers={"Content-Type": "text/plain"}))[0] == 415

    called(validator(lambda request: None), test)


def test_a_path_is_given_once_and_begins_with_a_slash():
    async def test(caller):
        pass

    def register(server):
        server.mutating("/v")(lambda obj, request: None)
        with pytest.raises(ValueError, match="is taken"):
            server.validating("/v")(lambda request: None)
        with pytest.raises(ValueError, match="slash"):
            server.validating("v")(lambda request: None)

    called(register, test)
