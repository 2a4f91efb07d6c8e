"""The variables that sample expressions may use: `self`, an object as a schema would declare it, and a few others."""

from __future__ import annotations

from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Object,
    Type,
    list_of,
    map_of,
    optional_of,
)


def _object(name: str, /, **fields: Type) -> Object:
    return Object(name, fields=fields)


PORT = _object("selfType.spec.ports.@idx", name=STRING, number=INT, protocol=STRING)
WEIGHT = _object("selfType.spec.nested.@elem.@idx", key=STRING, weight=DOUBLE)
SPEC = _object(
    "selfType.spec",
    replicas=INT,
    minReplicas=INT,
    ratio=DOUBLE,
    name=STRING,
    enabled=BOOL,
    data=BYTES,
    timeout=DURATION,
    since=TIMESTAMP,
    port=DYN,
    tags=list_of(STRING),
    numbers=list_of(INT),
    matrix=list_of(list_of(INT)),
    labels=map_of(STRING, STRING),
    limits=map_of(STRING, INT),
    nested=map_of(STRING, list_of(WEIGHT)),
    ports=list_of(PORT),
    # As escaped names of fields: namespace, a-b, in, x.y, __u.
    __namespace__=STRING,
    a__dash__b=STRING,
    __in__=INT,
    x__dot__y=BOOL,
    __underscores__u=STRING,
)
SELF = _object(
    "selfType",
    kind=STRING,
    apiVersion=STRING,
    metadata=_object("selfType.metadata", name=STRING, generateName=STRING),
    spec=SPEC,
    status=_object("selfType.status", ready=BOOL, phase=STRING),
)
VARIABLES: dict[str, Type] = {
    "self": SELF,
    "oldSelf": optional_of(SELF),
    "anything": DYN,
    "d.otted.name": INT,
}
