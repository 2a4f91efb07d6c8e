"""The paths of the API and their operations, in the form that both versions of OpenAPI are rendered from.

kubectl decides by these: it looks for a PATCH on the kind with a `fieldValidation` parameter before it leaves
validation to the server, for `dryRun` before it offers a dry run, and for the kind of an operation when it explains a
resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapi.schema.openapi import parameters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import GroupVersion
    from kapi.schema.openapi.served import ServedResource, Subresource

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
WATCH_EVENT = META + "WatchEvent"
DELETE_OPTIONS, PATCH, RESOURCES, STATUS = (
    META + "DeleteOptions",
    META + "Patch",
    META + "APIResourceList",
    META + "Status",
)

PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
CUSTOM_PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
"""Custom kinds do not say how their lists merge, so there is no strategic merge for them."""
MEDIA_TYPES = ("application/json", "application/yaml")
WATCH_TYPE = "application/json;stream=watch"

_VERBS = {"get": "read", "put": "replace", "post": "create"}
_CODES = {"post": ("200", "201", "202"), "put": ("200", "201"), "patch": ("200", "201"), "delete": ("200", "202")}
_REASONS = {"200": "OK", "201": "Created", "202": "Accepted"}

_STREAMS = frozenset({"attach", "exec", "portforward", "proxy"})
"""Sub-resources that are connections, not objects."""


class Operation(NamedTuple):
    """One method on one path."""

    method: str
    id: str
    action: str
    description: str
    kind: tuple[str, str, str]
    """Group, version and kind of what it works on; three empty strings for discovery."""
    tag: str
    result: str
    """The definition of the answer; empty for text."""
    body: str = ""
    """The definition of the request's body; empty when it has none."""
    is_custom: bool = False
    """True for kinds of CustomResourceDefinitions."""
    subresource: str = ""

    @property
    def is_body_required(self) -> bool:
        """Return True unless the operation is a deletion, which needs no body."""
        return self.body != DELETE_OPTIONS

    @property
    def consumes(self) -> tuple[str, ...]:
        """The media types of the request's body."""
        if self.method != "patch":
            return ("*/*",)
        return CUSTOM_PATCH_TYPES if self.is_custom else PATCH_TYPES

    @property
    def streams(self) -> bool:
        """Return True if the document says that the response may be a stream of watch events."""
        return self.action == "list" and not self.is_custom

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its query parameters."""
        return parameters.SUBRESOURCE_QUERIES.get(self.subresource) or parameters.QUERIES.get(self.action, ())

    @property
    def responses(self) -> dict[str, str]:
        """Success codes and their reason phrases."""
        return {code: _REASONS[code] for code in _CODES.get(self.action, ("200",))}

    @property
    def extensions(self) -> dict[str, object]:
        """The extensions that Kubernetes clients look for on an operation."""
        if not self.kind[2]:
            return {}
        group, version, kind = self.kind
        return {
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        }


Paths = dict[str, list[Operation]]


def paths(group_version: GroupVersion, resources: Iterable[ServedResource]) -> Paths:
    """Every path of a group version; its own discovery is included where built-in kinds are served."""
    resources = list(resources)
    root = root_path(group_version)
    name = camel(group_version.group) + group_version.version.capitalize()
    tag = f"{name[0].lower()}{name[1 : -len(group_version.version)]}_{group_version.version}"
    found: Paths = {}
    if not all(resource.is_custom for resource in resources):
        found[f"{root}/"] = [discovery(f"get{name}APIResources", "get available resources", RESOURCES, tag)]
    for resource in resources:
        found.update(_Resource(resource, root, name, tag).paths())
    return {path: operations for path, operations in sorted(found.items()) if operations}


def definitions(found: Paths) -> list[str]:
    """The names of the definitions that the operations refer to."""
    used = {name for operations in found.values() for one in operations for name in (one.result, one.body) if name}
    if any(one.streams for operations in found.values() for one in operations):
        used.add(WATCH_EVENT)
    return sorted(used)


def discovery(identity: str, description: str, result: str, tag: str) -> Operation:
    """A read of discovery, which is not about an object."""
    return Operation("get", identity, "", description, ("", "", ""), tag, result)


def root_path(group_version: GroupVersion) -> str:
    """The path that a group version is served at."""
    return f"/apis/{group_version}" if group_version.group else f"/api/{group_version.version}"


def camel(group: str) -> str:
    """A group as operation ids spell it: `RbacAuthorization` for rbac.authorization.k8s.io."""
    words = (group or "core").removesuffix(".k8s.io").replace("-", ".").split(".")
    return "".join(word.capitalize() for word in words)


class _Resource:
    """The paths of one resource."""

    def __init__(self, resource: ServedResource, root: str, name: str, tag: str) -> None:
        self.resource = resource
        self.root = root
        self.name = name
        self.tag = tag
        self.scope = "Namespaced" if resource.namespaced else ""

    def paths(self) -> Paths:
        """Collection, item, sub-resources, and the list over all namespaces."""
        resource = self.resource
        below = "/namespaces/{namespace}" if resource.namespaced else ""
        collection = f"{self.root}{below}/{resource.plural}"
        found: Paths = {
            collection: self.collection(),
            f"{collection}/{{name}}": [
                self.operation(action, action, resource.schema)
                for action, verb in (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))
                if verb in resource.verbs
            ],
        }
        for subresource in resource.subresources:
            found[f"{collection}/{{name}}/{subresource.name}"] = self.subresource(subresource)
        if resource.namespaced and "list" in resource.verbs:
            found[f"{self.root}/{resource.plural}"] = [self.list_all()]
        return found

    def collection(self) -> list[Operation]:
        """List, create, delete all."""
        resource, operations = self.resource, []
        kind = resource.kind
        if "list" in resource.verbs:
            operations.append(
                self._make(
                    "get", "list", f"list{self.name}{self.scope}{kind}", f"list or watch {kind}", resource.list_schema
                )
            )
        if "create" in resource.verbs:
            operations.append(self.operation("post", "post", resource.schema))
        if "deletecollection" in resource.verbs:
            identity = f"delete{self.name}Collection{self.scope}{kind}"
            operations.append(
                self._make(
                    "delete", "deletecollection", identity, f"delete a collection of {kind}", STATUS, DELETE_OPTIONS
                )
            )
        return operations

    def list_all(self) -> Operation:
        """The list over all namespaces."""
        kind = self.resource.kind
        identity = f"list{self.name}{kind}ForAllNamespaces"
        return self._make("get", "list", identity, f"list or watch {kind} in all namespaces", self.resource.list_schema)

    def operation(self, method: str, action: str, schema: str) -> Operation:
        """One of get, put, post, patch, delete on an object."""
        kind = self.resource.kind
        word = _VERBS.get(method, method)
        body = {"put": schema, "post": schema, "patch": PATCH, "delete": DELETE_OPTIONS}.get(method, "")
        result = STATUS if method == "delete" else schema
        return self._make(method, action, f"{word}{self.name}{self.scope}{kind}", f"{word} a {kind}", result, body)

    def subresource(self, subresource: Subresource) -> list[Operation]:
        """The operations on a sub-resource."""
        schema = self.resource.subresource_schema(subresource)
        gvk = (subresource.group, subresource.version, subresource.kind)
        if self.resource.is_custom:  # clients look for the custom kind on all of its paths, `scale` included
            gvk = (self.resource.group, self.resource.version, self.resource.kind)
        suffix = subresource.name[0].upper() + subresource.name[1:]
        operations = []
        for method, verb in (
            ("get", "get"),
            ("post", "create"),
            ("put", "update"),
            ("patch", "patch"),
            ("delete", "delete"),
        ):
            if verb not in subresource.verbs:
                continue
            description = f"{_VERBS.get(method, method)} {subresource.name} of the specified {self.resource.kind}"
            if subresource.name in _STREAMS:
                identity = f"connect{self.name}{method.capitalize()}{self.scope}{self.resource.kind}{suffix}"
                made = self._make(method, "connect", identity, description, "")
            else:
                plain = self.operation(method, method, schema)
                result = "" if subresource.name == "log" else plain.result
                made = plain._replace(id=plain.id + suffix, description=description, result=result)
            operations.append(made._replace(kind=gvk, subresource=subresource.name))
        return operations

    def _make(self, method: str, action: str, identity: str, text: str, result: str, body: str = "") -> Operation:
        resource = self.resource
        gvk = (resource.group, resource.version, resource.kind)
        return Operation(method, identity, action, text, gvk, self.tag, result, body, resource.is_custom)
