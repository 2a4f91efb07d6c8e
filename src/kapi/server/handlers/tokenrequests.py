"""TokenRequests: POST of serviceaccounts/token answers with a token of the service account. Nothing is stored."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from kapi.api.errors import BadRequest, Conflict, Invalid, NotImplemented501
from kapi.api.fielderror import invalid
from kapi.api.meta import GroupKind, GroupResource, GroupVersionKind, format_time
from kapi.registry.kinds.authentication import default_token_request, validate_token_request
from kapi.registry.request import CREATE
from kapi.schema.builtin.typed import kind_schema
from kapi.server.authn.serviceaccounts import Reference
from kapi.server.authn.tokenissuer import Bound
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import json_response, plain_only
from kapi.server.handlers.write import match_namespace, new_write

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.transport.message import Response

TOKEN_REQUEST: Final = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
ISSUED_CREDENTIAL: Final = "authentication.kubernetes.io/issued-credential-id"

_KIND: Final = GroupKind(TOKEN_REQUEST.group, TOKEN_REQUEST.kind)
_BOUND: Final = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}


async def create_token(context: Context) -> Response:
    """POST of serviceaccounts/token."""
    plain_only(context)
    issuer, info = context.services.token_issuer, context.info
    options = write_options(context.query, "CreateOptions")
    expected = Expectation(TOKEN_REQUEST, kind_schema(*TOKEN_REQUEST))
    request = await read_object(context, expected, validation=options.field_validation)
    match_namespace(context, request["metadata"])
    default_token_request(request)
    write = new_write(context, CREATE, options, name=info.name, kind=TOKEN_REQUEST)
    await write.admission.mutate(write, request, None)
    account = await _account(context, request["metadata"])
    if issuer is None:
        raise NotImplemented501("serviceaccounts/token is not supported: this server issues no service account tokens")
    now = context.services.clock.now()
    spec, own = request["spec"], account["metadata"]
    spec["audiences"] = spec.get("audiences") or list(issuer.audiences)
    given = {key: value for key, value in request["metadata"].items() if key in ("labels", "annotations")}
    head = {"name": own["name"], "namespace": own["namespace"], "uid": own["uid"]}
    request["metadata"] = {**head, "creationTimestamp": format_time(now), **given}
    request["status"] = {"token": "", "expirationTimestamp": None}
    if errors := validate_token_request(request):
        raise Invalid.of(_KIND, "", errors)
    await write.admission.validate(write, request, None)
    bound = await _bound_objects(context, spec.get("boundObjectRef"))
    seconds = spec["expirationSeconds"]
    if 0 < issuer.maximum < seconds:
        context.warnings.append(f"requested expiration of {seconds} seconds shortened to {issuer.maximum} seconds")
        seconds = issuer.maximum
    token, token_id = issuer.issue(account, spec["audiences"], seconds, now, bound)
    context.audit_annotations[ISSUED_CREDENTIAL] = f"JTI={token_id}"
    answer: Object = {
        "kind": TOKEN_REQUEST.kind,
        "apiVersion": TOKEN_REQUEST.api_version,
        "metadata": request["metadata"],
        "spec": {
            "audiences": spec["audiences"],
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": format_time(now + dt.timedelta(seconds=seconds))},
    }
    return json_response(context, 201, answer)


async def _account(context: Context, metadata: Object) -> Object:
    """Return the service account that a token is asked for; name and uid of the request must be its own, if given."""
    name = context.info.name
    if metadata.get("name", name) != name:
        why = "must match the service account name if specified"
        raise Invalid.of(_KIND, name, [invalid("metadata.name", metadata["name"], why)])
    store = context.served.stored
    account = store.decode(await store.fetch(context.info.namespace, name))
    uid, wanted = account["metadata"]["uid"], metadata.get("uid")
    if wanted and wanted != uid:
        why = f"the UID in the token request ({wanted}) does not match the UID of the service account ({uid})"
        raise Conflict.of(GroupResource(TOKEN_REQUEST.group, TOKEN_REQUEST.kind), name, why)
    return account


async def _bound_objects(context: Context, bound: Object | None) -> Bound:
    """Return the objects that a token is to be bound to; they exist, and a pod runs as the service account."""
    if bound is None:
        return Bound()
    api_version, kind, name = (bound.get(key, "") for key in ("apiVersion", "kind", "name"))
    group, _, version = api_version.rpartition("/")
    if group or kind not in _BOUND:
        raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    catalog = context.services.catalog
    store = catalog.store(_BOUND[kind])
    found = store.decode(await store.fetch("" if kind == "Node" else context.info.namespace, name))
    references = Bound()._replace(**{kind.lower(): Reference(name, found["metadata"]["uid"])})
    if kind == "Pod":
        if found["spec"].get("serviceAccountName") != context.info.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{context.info.name}" to pod running with different '
                "serviceaccount name."
            )
        if node_name := found["spec"].get("nodeName"):
            node = catalog.get("nodes", "", node_name)
            uid = node["metadata"]["uid"] if node is not None else ""
            references = references._replace(node=Reference(node_name, uid))
    wanted = bound.get("uid")
    if wanted and wanted != found["metadata"]["uid"]:
        why = (
            f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise Conflict.of(GroupResource("", kind), name, why)
    return references
