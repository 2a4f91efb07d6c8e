"""The annotation in which `kubectl apply` without `--server-side` keeps what it last applied.

Who moves from it to server-side apply would conflict with everything kubectl itself had written. So for the manager
`kubectl` fields that still are what the annotation says are not in conflict, and an annotation that is there is kept up
to date, for those who go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api import fieldset
from kapi.api.typedmerge import compare
from kapi.api.typedvalue import field_set, problems

if TYPE_CHECKING:
    from kapi.api.fieldset import FieldSet
    from kapi.api.meta import Object
    from kapi.api.typedvalue import Shape

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER: Final = "kubectl"
MOST_ANNOTATION_BYTES: Final = 256 * 1024

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode
_ESCAPED: Final = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))


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
    """Bring the annotation of `obj`, if it has one, up to a configuration. One that grew too large goes."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return
    annotations = {**annotations, ANNOTATION: _document(config)}
    # Values may be null here, which reads as empty.
    if (
        sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
        > MOST_ANNOTATION_BYTES
    ):
        del annotations[ANNOTATION]
    obj["metadata"] = {**obj["metadata"], "annotations": annotations}


def _document(config: Object) -> str:
    """The configuration without the annotation itself, in the form the reference gives it."""
    annotations = _annotations(config)
    if annotations:
        kept = {key: value or "" for key, value in annotations.items() if key != ANNOTATION}
        config = {**config, "metadata": {**config["metadata"], "annotations": kept}}
    text = _encode(config).decode()
    for character, escape in _ESCAPED:
        text = text.replace(character, escape)
    return text + "\n"


def _annotations(obj: Object) -> dict[str, str | None]:
    return (obj.get("metadata") or {}).get("annotations") or {}
