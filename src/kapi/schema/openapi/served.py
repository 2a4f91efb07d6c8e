"""The resources that a server serves, as far as OpenAPI describes them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from kapi.api.meta import GroupVersion
from kapi.schema.builtin import definitions as builtin


class Subresource(NamedTuple):
    """A sub-resource, with the kind it reads and writes: `scale` of a Deployment is an `autoscaling/v1` Scale."""

    name: str
    group: str
    version: str
    kind: str
    verbs: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """One resource at one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: tuple[Subresource, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    definition: str = ""
    """The name of its schema; empty for built-in kinds, which are found by their kind."""
    list_kind: str = ""
    """The kind of its lists. This and the next are for custom kinds only."""
    list_definition: str = ""
    selectable: tuple[str, ...] = ()
    """The fields that selectors may name."""

    @property
    def is_custom(self) -> bool:
        """Return True if a CustomResourceDefinition defines it."""
        return bool(self.definition)

    @property
    def group_version(self) -> GroupVersion:
        """The group version that serves it."""
        return GroupVersion(self.group, self.version)

    @property
    def schema(self) -> str:
        """The name of the definition of its objects; empty when nothing describes them."""
        return self.definition or builtin.definition_name(self.group, self.version, self.kind) or ""

    @property
    def list_schema(self) -> str:
        """The name of the definition of its lists."""
        return self.list_definition or builtin.definition_name(self.group, self.version, self.kind + "List") or ""

    def subresource_schema(self, subresource: Subresource) -> str:
        """The name of the definition of a sub-resource; its own kind means the resource's own definition."""
        if (subresource.group, subresource.version, subresource.kind) == (self.group, self.version, self.kind):
            return self.schema
        return builtin.definition_name(subresource.group, subresource.version, subresource.kind) or ""
