"""Reviews: questions answered at once and stored nowhere. Who am I, may they, is this token good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.meta import format_time
from kapi.api.user import User
from kapi.registry.kinds import authentication, authorization
from kapi.server.authz.authorizer import Attributes
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
    """Who the caller is to this server."""
    review = await _read(context)
    review["metadata"] = {"creationTimestamp": format_time(context.services.clock.now())}
    review["status"] = {"userInfo": context.user.info()}
    return json_response(context, 201, review)


async def token_review(context: Context) -> Response:
    """Whose token this is."""
    review = await _read(context)
    authentication.check_token_review(review)
    user = context.services.authenticator.review(review["spec"]["token"])
    if user is None:
        review["status"] = {"user": {}, "error": "invalid bearer token"}
    else:
        review["status"] = {"authenticated": True, "user": user.info()}
    return json_response(context, 201, review)


async def subject_access_review(context: Context) -> Response:
    """Whether somebody may do something."""
    review = await _read(context)
    authorization.check_subject_access_review(review)
    spec = review["spec"]
    subject = User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), spec.get("extra"))
    return _answer(context, review, subject)


async def local_subject_access_review(context: Context) -> Response:
    """Whether somebody may do something in one namespace."""
    review = await _read(context)
    authorization.check_local_subject_access_review(review, context.info.namespace)
    spec = review["spec"]
    subject = User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), spec.get("extra"))
    return _answer(context, review, subject)


async def self_subject_access_review(context: Context) -> Response:
    """Whether the caller may do something."""
    review = await _read(context)
    authorization.check_self_subject_access_review(review)
    return _answer(context, review, context.user)


def _answer(context: Context, review: Object, subject: User) -> Response:
    spec = review["spec"]
    asked = spec.get("resourceAttributes")
    if asked is not None:
        attributes = Attributes(
            subject,
            asked.get("verb", ""),
            asked.get("group", ""),
            asked.get("version", ""),
            asked.get("resource", ""),
            asked.get("subresource", ""),
            asked.get("namespace", ""),
            asked.get("name", ""),
        )
    else:
        asked = spec["nonResourceAttributes"]
        attributes = Attributes(subject, asked.get("verb", ""), path=asked.get("path", ""))
    decision = context.services.authorizer.authorize(attributes)
    review["status"] = {"allowed": decision.allowed}
    if decision.reason:
        review["status"]["reason"] = decision.reason
    return json_response(context, 201, review)


async def self_subject_rules_review(context: Context) -> Response:
    """What the caller may do in a namespace, as far as it can be listed."""
    review = await _read(context)
    authorization.check_self_subject_rules_review(review)
    rules = context.services.authorizer.rules(context.user, review["spec"]["namespace"])
    review["spec"] = {}
    review["status"] = {
        "resourceRules": rules.resources,
        "nonResourceRules": rules.paths,
        "incomplete": rules.incomplete,
    }
    return json_response(context, 201, review)
