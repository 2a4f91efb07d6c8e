"""The schema of a custom kind at one version, with the interface of `builtin.typed.KindSchema`.

It is compiled from the `openAPIV3Schema` of a definition, which `kapi.registry.kinds.apiextensions` has validated, by
the parts in `kapi.schema.structural`; `kapi.registry.custom` serves objects by it.

Nothing is compiled until an object needs it, so that a thousand definitions cost little; then each step becomes a
function on plain objects, once. CEL is imported for the first schema with rules: it is a quarter of all that a control
plane imports, and many tests of operators have none.

A definition without a schema, and a v1beta1 one with `preserveUnknownFields`, keeps unknown fields: nothing is pruned
then. Objects are validated all the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.structural.defaulting import compile_default
from kapi.schema.structural.defaultvalues import prune_defaults
from kapi.schema.structural.listtypes import check_update, compile_list_types
from kapi.schema.structural.metadata import coerce_object_meta, compile_embedded_check
from kapi.schema.structural.model import MISSING, Schema, has_rules, read
from kapi.schema.structural.reader import compile_reader
from kapi.schema.structural.shape import shape_of
from kapi.schema.structural.validator import compile_validator
from kapi.schema.structural.violations import unconvertible, violations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.api.ownership.shape import Shape
    from kapi.schema.builtin.mergekeys import MergeNode
    from kapi.schema.rules.validator import RuleValidator

    Reader = Callable[[Any], list[str]]
    Check = Callable[[Any, str], list[FieldError]]
    Validate = Callable[[Any, Any, str], list[FieldError]]


class CustomSchema:
    """Decoding, defaulting and validation for one version of a custom kind. Safe to share between threads."""

    def __init__(self, load: Callable[[], Mapping[str, Any] | None], *, preserve_unknown: bool) -> None:
        self._load = load
        self._preserve_unknown = preserve_unknown
        self.is_compiled = False
        """True once everything that a write needs is compiled."""

    def compile(self) -> None:
        """Compile everything that a write needs, which takes long for a large schema; without it, each on first use."""
        if self._schema is not None:
            _ = self._reader, self._default, self._validate, self._validate_status, self._checks
        _ = self.shape, self.defaults_status
        self.is_compiled = True

    # -- decoding ---------------------------------------------------------------------------------------------------

    def coerce(self, obj: Object, *, lenient: bool = False) -> list[str]:
        """Prune and coerce `obj` in place; return the paths of the unknown fields that were removed.

        Raises `TypeMismatch` when the metadata, the object's own or that of an embedded one, cannot be read. With
        `lenient`, for stored objects, such parts of it are dropped instead.
        """
        try:
            reader = self._lenient_reader if lenient else self._reader
            if reader is None:
                return coerce_object_meta(obj, drop_malformed=lenient) or []
            return reader(obj)
        except RecursionError:
            raise TypeMismatch("exceeded max depth") from None

    def reset_status(self, obj: Object) -> None:
        """Remove the status of `obj`: a new object has none."""
        obj.pop("status", None)

    def default(self, obj: Object) -> None:
        """Fill in defaults, in place; `DefaultsTooLarge` when they alone take more than an object may."""
        if self._default is not None:
            self._default(obj)

    @functools.cached_property
    def defaults_status(self) -> bool:
        """True if the schema has a default for the whole status."""
        status = None if self._structural is None else self._structural.properties.get("status")
        return status is not None and status.default is not MISSING

    # -- validation -------------------------------------------------------------------------------------------------

    def validate(
        self,
        obj: Object,
        old: Any = MISSING,
        *,
        extra: list[FieldError] | None = None,
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """The errors of an object, or of the change from `old`, where unchanged values are not validated again.

        `extra` are errors found elsewhere, which come before those of lists and rules. Failed rules of unchanged values
        are added to `warnings`.
        """
        if self._schema is None:
            return list(extra or ())
        errors = self._validate(obj, old, "")
        errors += extra or ()
        return self._validate_rules(obj, old, errors, warnings)

    def validate_status(
        self, obj: Object, old: Object, *, extra: list[FieldError] | None = None, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """The errors of a change of status: by the schema for that part alone, by the rules for the whole object."""
        errors: list[FieldError] = []
        if self._schema is None:
            return list(extra or ())
        if "status" in obj and self._validate_status is not None:
            errors += self._validate_status(obj["status"], old.get("status", MISSING), "status")
        errors += extra or ()
        return self._validate_rules(obj, old, errors, warnings)

    def _validate_rules(
        self, obj: Object, old: Any, errors: list[FieldError], warnings: list[str] | None
    ) -> list[FieldError]:
        embedded, lists, rules = self._checks
        if embedded is not None:
            errors += embedded(obj, "")
        if lists is not None:
            # Objects that have repeated items already may keep them.
            errors += lists(obj, "") if old is MISSING else check_update(lists, obj, old)
        if rules is not None:
            from kapi.schema.rules.validator import skipped_rules

            skipped = skipped_rules(errors)
            errors += [skipped] if skipped is not None else rules(obj, old, warnings=warnings)
        return errors

    # -- merging ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of objects for server-side apply."""
        if self._preserve_unknown and self._props is not None and violations(self._props, ""):
            return shape_of(None)
        return shape_of(self._structural, preserve=self._preserve_unknown)

    @property
    def merge(self) -> MergeNode:
        """Custom kinds have none: strategic merge patches are refused before this is called."""
        raise TypeError("custom kinds have no strategic merge")

    # -- compiled on first use --------------------------------------------------------------------------------------

    @functools.cached_property
    def _props(self) -> Mapping[str, Any] | None:
        return self._load()

    @functools.cached_property
    def _schema(self) -> Schema | None:
        if self._props is None:
            return None
        schema = read(self._props)
        if not self._preserve_unknown:
            prune_defaults(schema)
        return schema

    @functools.cached_property
    def _structural(self) -> Schema | None:
        """The schema, if it is structural; v1beta1 schemas need not be."""
        return None if self._props is None or unconvertible(self._props) is not None else self._schema

    @functools.cached_property
    def _reader(self) -> Reader | None:
        return self._compile_reader(drop_malformed=False)

    @functools.cached_property
    def _lenient_reader(self) -> Reader | None:
        return self._compile_reader(drop_malformed=True)

    def _compile_reader(self, *, drop_malformed: bool) -> Reader | None:
        if self._structural is None:
            return None
        return compile_reader(self._structural, preserve=self._preserve_unknown, drop_malformed=drop_malformed)

    @functools.cached_property
    def _default(self) -> Callable[[Any], None] | None:
        return None if self._structural is None else compile_default(self._structural)

    @functools.cached_property
    def _validate(self) -> Validate:
        assert self._schema is not None
        return compile_validator(self._schema)

    @functools.cached_property
    def _validate_status(self) -> Validate | None:
        assert self._schema is not None
        status = self._schema.properties.get("status")
        return None if status is None else compile_validator(status)

    @functools.cached_property
    def _checks(self) -> tuple[Check | None, Check | None, RuleValidator | None]:
        schema = self._structural
        if schema is None:
            return None, None, None
        return compile_embedded_check(schema), compile_list_types(schema), _compile_rules(schema)


def _compile_rules(schema: Schema) -> RuleValidator | None:
    if not has_rules(schema):
        return None
    from kapi.schema.rules.validator import compile_rules

    return compile_rules(schema)
