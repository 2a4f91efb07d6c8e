"""Reviews of tokens, of access and of the caller's identity: answered at once, stored nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.meta import format_time
from kapi.api.user import User
from kapi.registry.kinds import authentication, authorization
from kapi.server.authn.tokens import InvalidToken
from kapi.server.authz.attributes import reviewed_attributes
from kapi.server.authz.authorizer import Verdict
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import json_response, plain_only

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


async def _read(context: Context) -> Object:
    plain_only(context)
    resource = context.served
    options = write_options(context.query, "CreateOptions")
    expected = Expectation(resource.gvk, resource.schema)
    return await read_object(context, expected, validation=options.field_validation)


async def self_subject_review(context: Context) -> Response:
    """Return the user the caller is authenticated as."""
    review = await _read(context)
    review["metadata"] = {"creationTimestamp": format_time(context.services.clock.now())}
    review["status"] = {"userInfo": context.user.info()}
    return json_response(context, 201, review)


async def token_review(context: Context) -> Response:
    """Return the user of a bearer token."""
    review = await _read(context)
    authentication.check_token_review(review)
    authenticator = context.services.authenticator
    audiences = tuple(review["spec"].get("audiences") or authenticator.audiences)
    try:
        user, found = await authenticator.review(review["spec"]["token"], audiences)
    except InvalidToken as error:
        review["status"] = {"user": {}, "error": str(error)}
    else:
        review["status"] = {"authenticated": True, "user": user.info(), "audiences": list(found)}
    return json_response(context, 201, review)


async def subject_access_review(context: Context) -> Response:
    """Return the decision on an action of a user that the review names."""
    review = await _read(context)
    authorization.check_subject_access_review(review)
    return await _answer(context, review, _subject(review["spec"]))


async def local_subject_access_review(context: Context) -> Response:
    """Return the decision on an action, in one namespace, of a user that the review names."""
    review = await _read(context)
    authorization.check_local_subject_access_review(review, context.info.namespace)
    return await _answer(context, review, _subject(review["spec"]))


async def self_subject_access_review(context: Context) -> Response:
    """Return the decision on an action of the caller."""
    review = await _read(context)
    authorization.check_self_subject_access_review(review)
    return await _answer(context, review, context.user)


def _subject(spec: Object) -> User:
    return User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), spec.get("extra"))


async def _answer(context: Context, review: Object, subject: User) -> Response:
    attributes = reviewed_attributes(subject, review["spec"])
    decision = await context.services.authorizer.authorize(attributes)
    status = review["status"] = {"allowed": decision.allowed}
    if decision.verdict is Verdict.DENY:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    errors = [decision.error] if decision.error else []
    if attributes.field_error:
        errors.append(_ignored("fieldSelector", partially=bool(attributes.field_requirements)))
    if attributes.label_error:
        errors.append(_ignored("labelSelector", partially=bool(attributes.label_requirements)))
    if errors:
        status["evaluationError"] = "; ".join(errors)
    return json_response(context, 201, review)


def _ignored(selector: str, *, partially: bool) -> str:
    how = "partially ignored" if partially else "ignored"
    return f"spec.resourceAttributes.{selector} {how} due to parse error"


async def self_subject_rules_review(context: Context) -> Response:
    """Return what the caller may do in a namespace, as far as it can be listed."""
    review = await _read(context)
    authorization.check_self_subject_rules_review(review)
    rules = context.services.authorizer.rules(context.user, review["spec"]["namespace"])
    review["spec"] = {}
    review["status"] = {
        "resourceRules": rules.resources,
        "nonResourceRules": rules.paths,
        "incomplete": rules.incomplete,
    }
    if rules.error:
        review["status"]["evaluationError"] = rules.error
    return json_response(context, 201, review)
