"""The table of handlers: which function serves which verb of a resource and of its sub-resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.handlers import componentstatuses as virtual
from kapi.server.handlers import delete as deleting
from kapi.server.handlers import patch as patching
from kapi.server.handlers import pods, reviews, subresources, tokenrequests
from kapi.server.handlers import read as reading
from kapi.server.handlers import watch as watching
from kapi.server.handlers import write as writing
from kapi.server.pages.handlers import Pages
from kapi.server.router import Router

if TYPE_CHECKING:
    from kapi.server.router import Endpoint
    from kapi.server.services import Services

_CONNECT: dict[str, Endpoint] = dict.fromkeys(("create", "get", "update", "patch", "delete"), subresources.connect)


def router(services: Services) -> Router:
    """The router of a server."""
    aggregator = services.aggregator
    return Router(
        verbs={
            "create": writing.create,
            "get": reading.get,
            "list": reading.list_,
            "watch": watching.watch,
            "update": writing.update,
            "patch": patching.patch,
            "delete": deleting.delete,
            "deletecollection": deleting.delete_collection,
        },
        subresources={
            "status": {"get": reading.get, "update": writing.update_status, "patch": patching.patch_status},
            "scale": {
                "get": subresources.get_scale,
                "update": subresources.update_scale,
                "patch": subresources.patch_scale,
            },
            "finalize": {"update": subresources.finalize},
            "approval": {
                "get": reading.get,
                "update": subresources.update_approval,
                "patch": subresources.patch_approval,
            },
            "ephemeralcontainers": {
                "get": reading.get,
                "update": subresources.update_ephemeral,
                "patch": subresources.patch_ephemeral,
            },
            "resize": {
                "get": reading.get,
                "update": subresources.update_resize,
                "patch": subresources.patch_resize,
            },
            "binding": {"create": pods.create_binding},
            "eviction": {"create": pods.create_eviction},
            "token": {"create": tokenrequests.create_token},
            **dict.fromkeys(("attach", "exec", "portforward", "proxy"), _CONNECT),
            "log": {"get": subresources.no_kubelet},
        },
        virtual={
            "bindings": {"create": pods.create_binding},
            "componentstatuses": {"get": virtual.get_component, "list": virtual.list_components},
            "selfsubjectreviews": {"create": reviews.self_subject_review},
            "tokenreviews": {"create": reviews.token_review},
            "subjectaccessreviews": {"create": reviews.subject_access_review},
            "localsubjectaccessreviews": {"create": reviews.local_subject_access_review},
            "selfsubjectaccessreviews": {"create": reviews.self_subject_access_review},
            "selfsubjectrulesreviews": {"create": reviews.self_subject_rules_review},
        },
        page=Pages(services),
        proxy=None if aggregator is None else aggregator.proxy,
        remote=None if aggregator is None else aggregator.services.remote,
    )
