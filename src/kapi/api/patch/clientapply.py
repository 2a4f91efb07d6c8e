"""Applying a configuration from the client's side, as `kubectl apply` does without `--server-side`.

The client keeps what it applied in an annotation of the object. The next time, that is the original of a three-way
merge: what has left the configuration since is deleted, what others added stays. Here is what goes into the annotation
and what to send; who calls it reads and writes the objects, and puts the namespace into the configuration first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kapi.api.patch.creation import PatchCreationError, three_way_json_merge_patch, three_way_merge_patch
from kapi.api.patch.lastapplied import ANNOTATION, document
from kapi.api.patch.mergepatch import MERGE_PATCH, STRATEGIC_MERGE_PATCH

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.patch.strategicmerge import MergeNode

_decode = msgspec.json.Decoder().decode


def with_last_applied(config: Object) -> Object:
    """The configuration with itself in the annotation, to the byte as kubectl writes it.

    What was in the annotation before is not in the text, an object for the annotations always is. Doing it twice
    changes nothing.
    """
    metadata = config.get("metadata") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != ANNOTATION}
    bare = {**config, "metadata": {**metadata, "annotations": annotations}}
    annotated = {**annotations, ANNOTATION: document(bare)}
    return {**config, "metadata": {**metadata, "annotations": annotated}}


def last_applied(live: Object) -> Object | None:
    """The configuration in the annotation, None when there is none; raises PatchCreationError when it is unreadable."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        applied: Any = _decode(text)
    except msgspec.DecodeError as error:
        raise PatchCreationError(f"the annotation {ANNOTATION} is not JSON: {error}") from None
    if not isinstance(applied, dict):
        raise PatchCreationError(f"the annotation {ANNOTATION} is not a JSON object")
    return applied


def apply_patch(
    live: Object, config: Object, schema: MergeNode | None, *, overwrite: bool = True
) -> tuple[str, Object] | None:
    """The media type and the patch to send so that a configuration is applied; None when there is nothing to do.

    The patch keeps the annotation up to date. Without a schema, as for custom resources, it is a JSON merge patch and
    always overwrites. Raises PatchCreationError and its subclasses.
    """
    original = last_applied(live) or {}
    modified = with_last_applied(config)
    if schema is None:
        media_type, patch = MERGE_PATCH, three_way_json_merge_patch(original, modified, live)
    else:
        media_type = STRATEGIC_MERGE_PATCH
        patch = three_way_merge_patch(original, modified, live, schema, overwrite=overwrite)
    return (media_type, patch) if patch else None


# -- the text of the annotation ---------------------------------------------------------------------------------------
