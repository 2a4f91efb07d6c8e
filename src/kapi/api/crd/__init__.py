"""Custom kinds as Python classes: write the class, get the CustomResourceDefinition.

    class NetworkSpec(Model):
        cidr: Annotated[str, msgspec.Meta(pattern=r"^[0-9./]+$")]
        gateway: str = ""

    @resource("samples.example.com/v1", short_names=("net",))
    class Network(CustomResource):
        "A network."
        spec: NetworkSpec
        status: NetworkStatus | None = None

`definition(Network)` is the definition as a dictionary. Fields are annotated as for msgspec, limits with
`msgspec.Meta`; what a schema can say beyond that is in `markers`.
"""

from kapi.api.crd.definition import definition
from kapi.api.crd.markers import (
    Column,
    Default,
    Embedded,
    Format,
    Int32,
    IntOrString,
    ListMap,
    ListType,
    MapType,
    Nullable,
    PreserveUnknown,
    Required,
    Rule,
    Scale,
)
from kapi.api.crd.resources import CustomResource, Model, Naming, naming_of, resource
from kapi.api.crd.schemas import UnsupportedType, schema_of

__all__ = [
    "Column",
    "CustomResource",
    "Default",
    "Embedded",
    "Format",
    "Int32",
    "IntOrString",
    "ListMap",
    "ListType",
    "MapType",
    "Model",
    "Naming",
    "Nullable",
    "PreserveUnknown",
    "Required",
    "Rule",
    "Scale",
    "UnsupportedType",
    "definition",
    "naming_of",
    "resource",
    "schema_of",
]
