"""The values of the variables of CEL expressions in admission: the request, its objects, and the authorizer.

Match conditions of webhooks and all expressions of admission policies use these. Their types are declared in
`kapi.schema.admission.environments`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.environments import (
    AUTHORIZER,
    NAMESPACE_METADATA,
    NAMESPACE_OBJECT,
    OBJECT,
    OLD_OBJECT,
    PARAMS,
    REQUEST,
    REQUEST_RESOURCE,
)
from kapi.schema.cel.libraries import authorizer as checks
from kapi.server.admission.matching import namespace_of
from kapi.server.admission.request import admission_request, admitted_name
from kapi.server.authz.attributes import Attributes, selected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

_NAMESPACE_METADATA_KEYS: Final = (*(NAMESPACE_METADATA.fields.keys() - {"UID"}), "uid")


class AdmittedObject(NamedTuple):
    """What expressions see of one request, in the version that a rule matched."""

    write: Write
    obj: Object | None
    old: Object | None
    resource: Resource
    """The matched resource: the one of the request, or another version of it."""
    kind: GroupVersionKind
    """The kind of the two objects."""

    def variables(self, params: Object | None = None) -> dict[str, Any]:
        """The values of all variables of match conditions but those of the authorizer; these see no namespace."""
        return {
            OBJECT: self.obj,
            OLD_OBJECT: self.old,
            REQUEST: self.request(),
            NAMESPACE_OBJECT: None,
            PARAMS: params,
        }

    def request(self) -> dict[str, Any]:
        """The value of `request`."""
        return admission_request(self.write, self.obj, self.resource, self.kind)


def namespace_value(namespace: Object | None) -> Object | None:
    """The value of `namespaceObject`: the fields of a Namespace that expressions may see."""
    if namespace is None:
        return None
    metadata = namespace["metadata"]
    return {
        "metadata": {key: metadata[key] for key in _NAMESPACE_METADATA_KEYS if key in metadata},
        "spec": namespace.get("spec", {}),
        "status": namespace.get("status", {}),
    }


# -- the authorizer ---------------------------------------------------------------------------------------------------


def authorizer_variables(write: Write, obj: Mapping[str, Any] | None, ask: checks.Ask) -> dict[str, Any]:
    """The values of `authorizer` and `authorizer.requestResource` for the user of a request."""
    authorizer = checks.Authorizer(write.user, ask)
    resource = write.resource
    return {
        AUTHORIZER: authorizer,
        REQUEST_RESOURCE: checks.ResourceCheck(
            authorizer,
            resource.group,
            resource.resource,
            write.subresource,
            namespace_of(write),
            admitted_name(write, obj),
        ),
    }


def check_attributes(check: checks.Check, verb: str) -> Attributes:
    """The attributes that a check asks about."""
    user = check.authorizer.user
    if isinstance(check, checks.PathCheck):
        return Attributes(user, verb, is_resource=False, path=check.path)
    attributes = Attributes(
        user, verb, check.group, "*", check.resource, check.subresource, check.namespace, check.name
    )
    if check.field_selector or check.label_selector:
        return attributes._replace(**selected(check.field_selector, check.label_selector))
    return attributes
