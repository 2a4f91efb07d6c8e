"""The kinds that are served: every built-in one, from the catalog itself, and two custom ones that the fuzzer defines.

Names come from small pools, so that requests meet each other's objects.
"""

from typing import Any, NamedTuple

from every_route import OTHER_NAMES, RESOURCES, root
from valid_objects import FIELDS

from custom_kinds import CRDS, SCALE, definition, record, version
from kapi.schema.builtin.definitions import definition as schema_definition
from kapi.schema.builtin.definitions import definition_name

NAMES = ("fuzz-0", "fuzz-1", "fuzz-2")
NAMESPACES = ("default", "fuzz-a")
FIXED_GROUP = "fixed.fuzz.example.com"
RANDOM_GROUP = "random.fuzz.example.com"
RANDOM_PLURALS = ("r0s", "r1s", "r2s")


class Kind(NamedTuple):
    """One resource at one version, as the grammar needs it."""

    label: str
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: frozenset
    subresources: dict
    """Name → (kind, group, version, verbs)."""
    schema: Any
    """A node of the built-in definitions, or None."""
    valid: dict
    """The fields of a small valid object."""
    names: tuple
    selectable: tuple
    stored: bool
    hub: str
    """What its objects are stored under: kinds that share it are views of the same objects."""

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self):
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def everywhere(self):
        """The collection over all namespaces."""
        return f"{self.root}/{self.plural}"

    def collection(self, namespace):
        return f"{self.root}/namespaces/{namespace}/{self.plural}" if self.namespaced else self.everywhere

    def path(self, namespace, name):
        return f"{self.collection(namespace)}/{name}"


def _builtin(resource):
    name = definition_name(resource.group, resource.version, resource.kind)
    only = OTHER_NAMES.get(resource.resource)
    names = (only,) if only else NAMES
    if resource.resource == "customresourcedefinitions":
        names = tuple(f"{plural}.{RANDOM_GROUP}" for plural in RANDOM_PLURALS)
    if resource.resource == "namespaces":
        names = ("fuzz-c", "fuzz-d")
    subresources = {
        sub.name: (sub.kind, sub.group or resource.group, sub.version or resource.version, sub.verbs)
        for sub in resource.subresources.values()
    }
    return Kind(
        f"{resource.resource}.{resource.group or 'core'}/{resource.version}",
        resource.group,
        resource.version,
        resource.resource,
        resource.kind,
        resource.namespaced,
        frozenset(resource.verbs),
        subresources,
        schema_definition(name) if name else None,
        FIELDS.get(resource.resource, {}),
        names,
        ("metadata.name", "metadata.namespace", *resource.selectable),
        resource.store is not None,
        resource.store.prefix if resource.store is not None else root(resource) + resource.resource,
    )


BUILTIN = tuple(_builtin(resource) for resource in RESOURCES)

# -- custom kinds

SIZE = {"type": "integer", "minimum": -5, "maximum": 1000}
SPEC = record(
    size=SIZE,
    colour={"type": "string", "default": "red", "pattern": "^[a-z]*$", "maxLength": 64},
    when={"type": "string", "format": "date-time"},
    port={"x-kubernetes-int-or-string": True},
    tags={
        "type": "array",
        "items": {"type": "string", "maxLength": 64},
        "maxItems": 50,
        "x-kubernetes-list-type": "set",
    },
    parts={
        "type": "array",
        "maxItems": 50,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": record(("name",), name={"type": "string", "maxLength": 64}, count={"type": "integer", "default": 1}),
    },
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    map={"type": "object", "additionalProperties": {"type": "number"}, "maxProperties": 100},
    maybe={"type": "string", "nullable": True},
)
SPEC["x-kubernetes-validations"] = [
    {"rule": "!has(self.size) || !has(self.parts) || self.parts.all(p, p.count <= self.size + 1000)"},
    {
        "rule": "!has(oldSelf.size) || !has(self.size) || self.size >= oldSelf.size - 500",
        "messageExpression": "string(self.size)",
    },
]
STATUS = record(ready={"type": "boolean"}, size={"type": "integer"}, selector={"type": "string"})
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name", "priority": 1},
    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
]
_MORE = {
    "subresources": {"status": {}, "scale": SCALE},
    "additionalPrinterColumns": COLUMNS,
    "selectableFields": [{"jsonPath": ".spec.colour"}],
}
_ROOT = record(spec=SPEC, status=STATUS)
DEFINITIONS = (
    definition(
        "Gadget",
        [version("v1", storage=True, root=_ROOT, **_MORE), version("v2", root=_ROOT, **_MORE)],
        group=FIXED_GROUP,
    ),
    definition(
        "Site",
        [version("v1", storage=True, root=record(spec=SPEC), subresources={})],
        group=FIXED_GROUP,
        scope="Cluster",
    ),
)
_STATUS_VERBS = ("get", "patch", "update")
_CUSTOM_SUBRESOURCES = {
    "status": ("Gadget", FIXED_GROUP, "v1", _STATUS_VERBS),
    "scale": ("Scale", "autoscaling", "v1", _STATUS_VERBS),
}
_ALL_VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"))


def _custom(plural, kind, api, *, namespaced=True, group=FIXED_GROUP, subresources=None, stored=True):
    return Kind(
        f"{plural}.{group}/{api}",
        group,
        api,
        plural,
        kind,
        namespaced,
        _ALL_VERBS,
        subresources or {},
        None,
        {"spec": {"size": 1, "parts": [{"name": "a"}], "tags": ["x", "z"], "colour": "blue", "map": {"a": 1}}},
        NAMES,
        ("metadata.name", "metadata.namespace", "spec.colour"),
        stored,
        f"{group}/{plural}",
    )


CUSTOM = (
    _custom("gadgets", "Gadget", "v1", subresources=_CUSTOM_SUBRESOURCES),
    _custom("gadgets", "Gadget", "v2", subresources=_CUSTOM_SUBRESOURCES),
    _custom("sites", "Site", "v1", namespaced=False),
    # Defined, changed and deleted by the requests themselves; not compared, because deletion of the definition ends them.
    *(_custom(plural, plural[:-1].upper(), "v1", group=RANDOM_GROUP, stored=False) for plural in RANDOM_PLURALS),
)
KINDS = (*BUILTIN, *CUSTOM)
REVIEWS = tuple(kind for kind in BUILTIN if kind.group in ("authorization.k8s.io", "authentication.k8s.io"))
STORED = tuple(kind for kind in KINDS if kind.stored)
BY_ROOT = {f"{kind.root}/{kind.plural}": kind for kind in KINDS}
__all__ = [
    "BUILTIN",
    "BY_ROOT",
    "CRDS",
    "CUSTOM",
    "DEFINITIONS",
    "KINDS",
    "NAMES",
    "NAMESPACES",
    "REVIEWS",
    "STORED",
    "Kind",
]
