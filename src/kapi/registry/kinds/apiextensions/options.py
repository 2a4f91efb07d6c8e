"""The options of validation: which rules a definition may break because it is stored that way already.

A rule that came later must not keep people from changing a definition that was stored before it, so most rules about
schemas are only enforced when the stored definition obeys them already. And definitions that come in as v1beta1 are
validated as they were in that version, which asked for less. Answers are worked out when they are needed: most of them
mean walking the schemas that are stored.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapi.registry.kinds.apiextensions import conversion, schemafields
from kapi.registry.kinds.apiextensions.conditions import ESTABLISHED, is_true
from kapi.registry.kinds.apiextensions.schemafields import Strictness
from kapi.registry.kinds.apiextensions.toplevel import identical, top_level
from kapi.schema.structural.defaultvalues import default_errors
from kapi.schema.structural.violations import violations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.meta import Object

    Props = Mapping[str, Any]

MOST_SELECTABLE = 8
"""Selectable fields of a version."""

_NO_DEFAULTS = "(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)"


class ValidationOptions:
    """The rules that apply to a new definition, or to a new state of one (`old` is the stored one)."""

    def __init__(self, old: Object | None, *, legacy: bool) -> None:
        self._old = old
        self._legacy = legacy
        self._spec: dict[str, Any] = (old or {}).get("spec") or {}

    @functools.cached_property
    def _schemas(self) -> list[Props]:
        return [props for one in self._spec.get("versions") or () if (props := schema_of(one)) is not None]

    @functools.cached_property
    def strictness(self) -> Strictness:
        """The options for the fields of schemas."""
        every = [one for props in self._schemas for one in schemafields.walk(props)]
        allow_defaults = not self._legacy or any(one.get("default") is not None for one in every)
        return Strictness(
            allow_defaults=allow_defaults,
            no_defaults_because="" if allow_defaults else _NO_DEFAULTS,
            known_types=not self._legacy and all(one.get("type") in (None, "", *schemafields.TYPES) for one in every),
            atomic_sets=not any(schemafields.divided_items(one) for one in every),
            complete_keys=not any(any(schemafields.incomplete_keys(one, None)) for one in every),
        )

    @property
    def needs_schemas(self) -> bool:
        """Every version must have a schema."""
        return not self._legacy and all(schema_of(one) is not None for one in self._spec.get("versions") or ())

    @functools.cached_property
    def needs_structure(self) -> bool:
        """Schemas must be structural, even if nothing is pruned by them."""
        return not self._legacy and not any(violations(props, "") for props in self._schemas)

    @functools.cached_property
    def needs_pruned_defaults(self) -> bool:
        """Defaults may have no fields that pruning would take away."""
        return not any(
            error.body.endswith("must not have unknown fields")
            for props in self._schemas
            if not violations(props, "")
            for error in default_errors(props, "")
        )

    @property
    def needs_known_reviews(self) -> bool:
        """A conversion webhook must understand a review version that this server speaks."""
        return conversion.is_recognized(conversion.review_versions(self._spec.get("conversion")))

    @property
    def needs_usable_certificates(self) -> bool:
        """The certificates of a conversion webhook must be readable: once established, unless they never were."""
        if not self.has_fixed_names:
            return False
        config = conversion.client_config(self._spec.get("conversion")) or {}
        return not conversion.bundle_problem(config.get("caBundle"))

    @property
    def has_fixed_names(self) -> bool:
        """Objects may exist under the names of the definition."""
        return self._old is not None and is_true(self._old, ESTABLISHED)

    @property
    def needs_approval(self) -> bool:
        """Community groups need the annotation."""
        return not self._legacy

    @property
    def may_preserve(self) -> bool:
        """All unknown fields of all versions may be kept."""
        return self._legacy or bool(self._spec.get("preserveUnknownFields"))

    def may_crowd(self, version: str, selectable: list[Any]) -> bool:
        """A version (none: all of them) may have too many selectable fields, because it had these very ones."""
        shared, versions = top_level(self._spec.get("versions") or [])
        before = [shared] if not version else [one for one in versions if one.get("name") == version]
        return any(
            len(one.get("selectableFields") or ()) > MOST_SELECTABLE and identical(one["selectableFields"], selectable)
            for one in before
        )

    def is_unchanged(self, version: str, schema: Any) -> bool:
        """A version has the schema that is stored: then its rules are not measured again."""
        return any(
            one.get("name") == version and identical(one.get("schema"), schema)
            for one in self._spec.get("versions") or ()
        )


def schema_of(version: Props) -> Props | None:
    """The schema of a version; None when it has none."""
    props: Props | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return props
