"""From a class, or a CustomResourceDefinition, to the definition that a resource is served by, and to its objects."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kapi.api.crd import CustomResource, definition
from kapi.client import documents
from kapi.codec import json
from kapi.registry.encoding import copy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import GroupResource, GroupVersionKind, Object
    from kapi.schema.customschema import CustomSchema

SERVERS_OWN = ("resourceVersion", "managedFields")
"""Metadata that a backing has no place for."""
_CONDITIONS = [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]
_sorted = msgspec.json.Encoder(order="sorted").encode


def served_definition(kinds: Sequence[type[CustomResource] | Object]) -> Object:
    """Return the definition of a kind with the status of one that is established; TypeError if there is none."""
    classes = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, CustomResource)]
    if classes and len(classes) == len(kinds):
        found = definition(*classes)
    elif len(kinds) == 1 and isinstance(kinds[0], dict) and kinds[0].get("kind") == "CustomResourceDefinition":
        found = cast("Object", copy_of(kinds[0]))
    else:
        raise TypeError("expected classes decorated with @resource, or one CustomResourceDefinition as a dictionary")
    names = found["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    name = found["metadata"]["name"]
    found["metadata"] = {**found["metadata"], "uid": name, "resourceVersion": "0"}
    found["spec"].setdefault("conversion", {"strategy": "None"})
    found["status"] = {
        "acceptedNames": names,
        "storedVersions": [one["name"] for one in found["spec"]["versions"] if one["storage"]],
        "conditions": _CONDITIONS,
    }
    return found


class Objects:
    """Converts the objects of one kind between what a resource's functions see and the documents of the API."""

    def __init__(self, kind: type[CustomResource] | Object, gvk: GroupVersionKind, resource: GroupResource) -> None:
        self._class = kind if isinstance(kind, type) else None
        self._gvk = gvk
        self._resource = resource

    def instance(self, document: Object) -> Any:
        """Return the object that a document wants to be stored: an instance of the class, or a dictionary.

        It has no resourceVersion, which the backing gives or Kapi computes: so a backing may store all it is given.
        """
        metadata = {name: value for name, value in document["metadata"].items() if name not in SERVERS_OWN}
        document = {**document, "metadata": metadata}
        if self._class is None:
            return copy_of(document)
        return msgspec.json.decode(msgspec.json.encode(document), type=self._class)

    def document(self, obj: Any, schema: CustomSchema, *, namespaced: bool) -> Object:
        """Return the document of an object that a resource's function has returned; TypeError if it is none.

        It gets what every object has, where the function did not set it: kind, defaults of the schema, uid.
        """
        document: Any = json.decode(documents.encode(obj))
        if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
            raise TypeError(f"{self._resource}: expected an object with metadata, not {type(obj).__name__}")
        metadata = document["metadata"]
        if not metadata.get("name") or bool(metadata.get("namespace")) is not namespaced:
            wanted = "name and namespace" if namespaced else "a name and no namespace"
            raise TypeError(f"{self._resource}: an object must have {wanted} in its metadata")
        document = {"kind": self._gvk.kind, "apiVersion": self._gvk.api_version, **document}
        document["kind"], document["apiVersion"] = self._gvk.kind, self._gvk.api_version
        metadata = document["metadata"]
        metadata.pop("managedFields", None)
        schema.default(document)
        if not metadata.get("uid"):
            path = f"{self._resource}/{metadata.get('namespace', '')}/{metadata['name']}"
            metadata["uid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, path))
        return cast("Object", document)


def version_of(document: Object) -> int:
    """Return the resourceVersion of a document, as a number; TypeError if it is none.

    Without one, it is a number of 63 bits that changes with the content.
    """
    version = document["metadata"].get("resourceVersion")
    if not version:
        return int.from_bytes(hashlib.sha256(_sorted(document)).digest()[:8]) >> 1 or 1
    if not (version.isascii() and version.isdigit()) or int(version) == 0:
        raise TypeError(f"resourceVersion {version!r} is not a positive decimal number")
    return int(version)
