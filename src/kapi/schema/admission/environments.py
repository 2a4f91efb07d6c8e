"""What expressions in admission may refer to: `object`, `oldObject`, `request`, `namespaceObject`, `authorizer`.

Objects are plain JSON for expressions, whatever their schemas say; `request` and `namespaceObject` have the types that
Kubernetes declares.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kapi.schema.cel.environment import Environment
from kapi.schema.cel.libraries import mutation
from kapi.schema.cel.libraries.authorizer import AUTHORIZER_TYPE, RESOURCE_CHECK_TYPE
from kapi.schema.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Object, Type, list_of, map_of

OBJECT: Final = "object"
OLD_OBJECT: Final = "oldObject"
PARAMS: Final = "params"
REQUEST: Final = "request"
NAMESPACE_OBJECT: Final = "namespaceObject"
AUTHORIZER: Final = "authorizer"
REQUEST_RESOURCE: Final = "authorizer.requestResource"
VARIABLES: Final = "variables"


def _type(name: str, /, **fields: Type) -> Object:
    return Object(f"kubernetes.{name}", fields=fields, keeps_null=True)


_STRINGS: Final = list_of(STRING)
_LABELS: Final = map_of(STRING, STRING)
_KIND: Final = _type("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _type("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _type("UserInfo", username=STRING, uid=STRING, groups=_STRINGS, extra=map_of(STRING, _STRINGS))

REQUEST_TYPE: Final = _type(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)

_CONDITION: Final = _type(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
NAMESPACE_METADATA: Final = _type(
    "NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=_LABELS,
    annotations=_LABELS,
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=_STRINGS,
)
NAMESPACE_TYPE: Final = _type(
    "Namespace",
    metadata=NAMESPACE_METADATA,
    spec=_type("NamespaceSpec", finalizers=_STRINGS),
    status=_type("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)


@cache
def base_environment(
    *, has_params: bool = False, has_authorizer: bool = True, has_patch_types: bool = False
) -> Environment:
    """The environment of expressions in admission, without the variables of a policy."""
    variables: dict[str, Type] = {
        OBJECT: DYN,
        OLD_OBJECT: DYN,
        NAMESPACE_OBJECT: NAMESPACE_TYPE,
        REQUEST: REQUEST_TYPE,
    }
    if has_params:
        variables[PARAMS] = DYN
    if has_authorizer:
        variables |= {AUTHORIZER: AUTHORIZER_TYPE, REQUEST_RESOURCE: RESOURCE_CHECK_TYPE}
    environment = Environment(variables)
    if has_patch_types:
        return environment.extend(types=mutation.TYPES, libraries=[mutation.LIBRARY])
    return environment
