"""The values of a custom resource judged by its schema, the way it happens on every write.

`compile_validator` makes one function of a schema when its kind is first served. The function answers a valid object
with no more than a walk over it; the words for an invalid one are only prepared when the first one comes. What it does
not judge: lists of type set and map (`listtypes`), the heads of embedded objects (`metadata`) and CEL rules.

The numbers it is given are as `kapi.codec.json` decodes them: an int is an int64, a float is anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError
from kapi.schema.structural.checks.acceptance import compile_accept
from kapi.schema.structural.checks.explanation import Explainer, Findings
from kapi.schema.structural.correlation import Comparison
from kapi.schema.structural.wording import NOWHERE, invalid

if TYPE_CHECKING:
    from kapi.schema.structural.model import Schema

Validator = Callable[[Any, Any, str], list[FieldError]]
"""Judges `(value, old, path)`.

`old` is the stored state on an update and MISSING on a create; given, the errors of parts that have not changed are
dropped. `path` is where the value stands: nothing for a whole object. For the status alone, as the status subresource
judges it, give the schema of the status, both states of it, and `status`: the errors then have fields below `status`
and texts that name them from there, which is what the reference says.
"""


def compile_validator(schema: Schema) -> Validator:
    """The function that judges values by a schema. Its errors come in the order of the reference."""
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
            found = Findings()
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
