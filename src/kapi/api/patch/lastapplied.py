"""The annotation in which `kubectl apply` without `--server-side` keeps what it last applied.

Who moves from it to server-side apply would conflict with everything kubectl itself had written. So for the manager
`kubectl` fields that still are what the annotation says are not in conflict, and an annotation that is there is kept up
to date, for those who go back.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.ownership import fieldset
from kapi.api.ownership.merge import compare
from kapi.api.ownership.shape import field_set, problems

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.ownership.fieldset import FieldSet
    from kapi.api.ownership.shape import Shape

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER: Final = "kubectl"
MOST_ANNOTATION_BYTES: Final = 256 * 1024

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode
# Characters that Go's encoder escapes in strings, beyond those JSON asks for.
_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "&<>\u2028\u2029"}


def unchanged_fields(shape: Shape, api_version: str, live: Object) -> FieldSet:
    """The fields of the object that still are as the annotation says; none when it says nothing we understand."""
    text = _annotations(live).get(ANNOTATION)
    if not isinstance(text, str) or not text:
        return fieldset.LEAF
    try:
        applied: Any = _decode(text)
    except msgspec.DecodeError:
        return fieldset.LEAF
    if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
        return fieldset.LEAF
    if problems(shape, applied) or problems(shape, live):
        return fieldset.LEAF
    unchanged = field_set(shape, applied)
    for changed in compare(shape, applied, live):
        unchanged = fieldset.difference(unchanged, changed)
    return unchanged


def follow(obj: Object, config: Object) -> None:
    """Bring the annotation of `obj`, if it has one, up to a configuration. One that grew too large is removed."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return
    annotations = {**annotations, ANNOTATION: _configuration(config)}
    # Values may be null here, which reads as empty.
    if (
        sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
        > MOST_ANNOTATION_BYTES
    ):
        del annotations[ANNOTATION]
    obj["metadata"] = {**obj["metadata"], "annotations": annotations}


def _configuration(config: Object) -> str:
    """The configuration without the annotation itself, in the form kubectl gives it."""
    annotations = _annotations(config)
    if annotations:
        kept = {key: value or "" for key, value in annotations.items() if key != ANNOTATION}
        config = {**config, "metadata": {**config["metadata"], "annotations": kept}}
    return document(config)


def document(config: Object) -> str:
    """JSON as Go writes it: compact, keys sorted, some characters escaped, a newline at the end."""
    return _encode(_with_go_numbers(config)).decode().translate(_ESCAPED) + "\n"


def _with_go_numbers(value: Any) -> Any:
    """The value with its floats written as Go writes them."""
    if isinstance(value, float):
        return msgspec.Raw(_go_number(value).encode())
    if isinstance(value, dict):
        return {key: _with_go_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_go_numbers(item) for item in value]
    return value


def _go_number(value: float) -> str:
    """The shortest digits that read back the same; an exponent below 1e-6 and from 1e21, no point in whole numbers."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace("e-0", "e-")


def _annotations(obj: Object) -> dict[str, str | None]:
    return (obj.get("metadata") or {}).get("annotations") or {}
