"""The JSON merge patch (RFC 7386), and what all kinds of patch share: media types and errors.

    PatchError
    ├── PatchDecodeError    the patch is no patch at all: 400, the text is the whole message
    ├── PatchFormatError    a directive of a strategic patch is malformed: 400, the text is the whole message
    ├── PatchApplyError     a JSON patch does not fit the object: 422, the text hidden but from webhooks
    ├── PatchContentError   a strategic patch does not fit the object: 422, the text hidden likewise
    ├── PatchTooDeep        the result nests deeper than a body may: 400, as for such a body
    └── PatchInternalError  what kube-apiserver answers with a bare 500, the text is the whole message

All patches are functions on decoded JSON that leave their arguments as they were. The result shares what did not change
with the object, and what was added with the patch: copy it before changing it in place. It may hold nulls where the
patch put them; they go when the result is decoded as an object of its kind.
"""

from __future__ import annotations

from typing import Any, Final

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


class PatchError(ValueError):
    """A patch that cannot be read or applied."""


class PatchDecodeError(PatchError):
    """The body is not a list of operations, or not an object."""


class PatchFormatError(PatchError):
    """A directive has the wrong shape."""


class PatchApplyError(PatchError):
    """An operation found no place to work, or a test failed."""


class PatchContentError(PatchError):
    """The patch contradicts itself or the object."""


class PatchTooDeep(PatchError):
    """The result of a patch nests deeper than a document may."""

    def __init__(self) -> None:
        super().__init__("exceeded max depth")


class PatchInternalError(PatchError):
    """The patch cannot be merged; answered as 500 for compatibility, though the client is to blame."""


def merge(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch: null removes a key, objects merge, anything else replaces.

    Nulls below a value that is new in the object are dropped, in lists of objects too.
    """
    merged = dict(doc)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
            continue
        current = merged.get(key)
        if isinstance(value, dict) and isinstance(current, dict):
            merged[key] = merge(current, value)
        else:
            merged[key] = without_nulls(value)
    return merged


def without_nulls(value: Any) -> Any:
    """The value without keys that are null, at any depth; items of lists stay, null or not."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
