"""Validation of custom objects by their schema, on every write.

`compile_validator` makes one function of a schema when its kind is first served. A valid object takes one walk over it;
the code that makes errors is compiled when the first invalid object comes. Validated elsewhere: lists of type set and
map (`listtypes`), the metadata of embedded objects (`metadata`) and CEL rules (`kapi.schema.rules`).

The numbers it is given are as `kapi.codec.json` decodes them: an int is an int64, a float is anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError
from kapi.schema.structural.checks.acceptance import compile_accept
from kapi.schema.structural.checks.explanation import Explainer
from kapi.schema.structural.correlation import Comparison
from kapi.schema.structural.messages import NOWHERE, invalid
from kapi.schema.structural.report import Report

if TYPE_CHECKING:
    from kapi.schema.structural.model import Schema

Validator = Callable[[Any, Any, str], list[FieldError]]
"""Returns the errors of `(value, old, path)`.

`old` is the stored state on an update and MISSING on a create; given, the errors of parts that have not changed are
dropped. `path` is where the value is: empty for a whole object. For the status alone, as the status sub-resource
validates it, give the schema of the status, its old and new value, and `status`: the errors then have fields below
`status` and texts that name them from there, as those of kube-apiserver.
"""


def compile_validator(schema: Schema) -> Validator:
    """The function that validates values by a schema. Its errors are in the order of kube-apiserver."""
    accept = compile_accept(schema)
    if accept is None:
        return lambda _value, _old, _path: []
    explainer: Explainer | None = None

    def validate(value: Any, old: Any, path: str) -> list[FieldError]:
        nonlocal explainer
        try:
            if accept(value):
                return []
            explainer = explainer or Explainer(schema)
            found = Report(distinct=True)
            explainer.explain(value, old, None, found, Comparison())
        except RecursionError:
            # Schemas and objects are bounded in depth, but not so tightly that rules at every level always fit.
            return [invalid(path or NOWHERE, "", "nested too deeply to be validated")]
        return [_placed(error, path) for error in found.errors]

    return validate


def _placed(error: FieldError, path: str) -> FieldError:
    name = error.field.removeprefix(".")
    if not name:
        return error._replace(field=path or NOWHERE)
    return error._replace(field=f"{path}.{name}" if path else name)
