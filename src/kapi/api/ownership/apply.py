"""Field ownership: the rules of server-side apply, without the wire format.

An owner has a claim: a set of fields, at an API version. An update moves the fields it changed from the claims of
others to its own. An apply merges a configuration into the object; its claim is then what the configuration mentions.
Fields that a manager applied before and no longer mentions are removed, unless another claims them. Changing a field
that another manager claims is a conflict, which force resolves by taking it.

Claims of other versions of the kind are compared on the object converted to that version. Nothing here knows of
`metadata.managedFields`; that is `kapi.api.ownership.managedfields`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.ownership import fieldset
from kapi.api.ownership.fieldset import LEAF, FieldSet
from kapi.api.ownership.merge import SAME, compare, merge, remove
from kapi.api.ownership.shape import ensure_named, field_set, problems, reconcile

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.ownership.merge import Comparison
    from kapi.api.ownership.shape import Shape

Filter = Callable[[FieldSet], FieldSet]
"""Takes out of a set the fields that an endpoint does not write."""
AtVersion = Callable[["Object", str], "tuple[Shape, Object] | None"]
"""The object at another version and the shape it has there; None when there is no such version."""

APPLY: Final = "Apply"
UPDATE: Final = "Update"

NEVER_OWNED: Final = fieldset.of(
    fieldset.fields("apiVersion"),
    fieldset.fields("kind"),
    fieldset.fields("metadata"),
    *(
        fieldset.fields("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "initializers",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
"""Fields that say what the object is, or belong to the server."""
_HIDDEN: Final = frozenset(step[2:] for step in NEVER_OWNED["f:metadata"] if step != fieldset.SELF)


class FieldOwner(NamedTuple):
    """A manager that owns fields. One that applies is the same at every version, so its `api_version` is empty."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class Claim(NamedTuple):
    """The fields of an owner, and when it last changed one of them."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Claims = dict[FieldOwner, Claim]


class ConversionFailed(Exception):
    """An object does not fit the schema of another version that a manager owns fields at.

    That is a custom object with a field that an older version does not declare. The text says what does not fit, and
    which step converted it, as kube-apiserver does.
    """


class FieldConflicts(Exception):
    """An apply would change fields that others claim: for each of them, which."""

    def __init__(self, fields: dict[FieldOwner, FieldSet]) -> None:
        super().__init__()
        self.fields = fields


def excluding(*paths: tuple[str, ...]) -> Filter:
    """A filter that takes out these fields and everything below them."""
    excluded = fieldset.of(*paths)
    return lambda owned: fieldset.recursive_difference(owned, excluded)


def only(*patterns: tuple[str, ...]) -> Filter:
    """A filter that leaves nothing but what is on or below these paths, whose steps may be `fieldset.ANY`."""
    wanted = fieldset.of(*patterns)
    return lambda owned: fieldset.matching(owned, wanted)


def without_identity(obj: Object) -> Object:
    """The object without the fields that no manager owns; the same values in new outer dictionaries."""
    view = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    metadata = obj.get("metadata")
    if metadata:
        view["metadata"] = {key: value for key, value in metadata.items() if key not in _HIDDEN}
    return view


class Ownership:
    """The rules for one kind, at one version, on one endpoint.

    `reset` keeps out of claims what the endpoint does not write; with `resets_everywhere`, also where claims of other
    versions are compared. Without `at_version`, claims of other versions are left alone.
    """

    def __init__(
        self,
        shape: Shape,
        api_version: str,
        *,
        reset: Filter | None = None,
        resets_everywhere: bool = False,
        at_version: AtVersion | None = None,
        has_fixed_schema: bool = True,
    ) -> None:
        self.shape = shape
        self.api_version = api_version
        self._reset = reset
        self._reset_elsewhere = reset if resets_everywhere else None
        self._at_version = at_version
        self.has_fixed_schema = has_fixed_schema

    def update(self, live: Object, new: Object, claims: Claims) -> tuple[FieldSet, Claims]:
        """Return the fields that a write changed or added, and the claims of all managers without them."""
        claims = self._reconciled(live, claims)
        comparison = self._compare(live, new)
        if comparison is SAME:
            return LEAF, claims
        taken = fieldset.difference(fieldset.union(comparison.modified, comparison.added), NEVER_OWNED)
        if claims:
            contested, lost = self._contest(comparison, live, new, claims, None)
            claims = _without(_without(claims, contested), lost)
        return fieldset.ordered(taken), claims

    def apply(
        self, live: Object, config: Object, claims: Claims, owner: FieldOwner, *, force: bool
    ) -> tuple[Object, Claims]:
        """The merged object and the claims. Raises `FieldConflicts` unless forced.

        The very same object comes back when nothing changed. `config` must be free of `problems`.
        """
        claims = self._reconciled(live, claims)
        last = claims.get(owner)
        owned = self._owned(config)
        # Asking whether it is the same set is cheaper than putting it in order.
        owned = last.fields if last is not None and last.fields == owned else fieldset.ordered(owned)
        mine = Claim(owned, self.api_version, last.time if last else None)
        claims = {**claims, owner: mine}
        merged = merge(self.shape, live, config)
        if last is not None and (last.fields != mine.fields or last.api_version != mine.api_version):
            merged = self._prune(merged, claims, last)
        comparison = self._compare(live, merged) if merged is not live else SAME
        if comparison is not SAME:
            contested, lost = self._contest(comparison, live, merged, claims, owner)
            if contested and not force:
                raise FieldConflicts(contested)
            claims = _without(_without(claims, contested), lost)
        if not mine.fields:
            claims.pop(owner, None)
        return merged, claims

    def _owned(self, config: Object) -> FieldSet:
        owned = fieldset.difference(field_set(self.shape, config), NEVER_OWNED)
        return self._reset(owned) if self._reset else owned

    def _reconciled(self, live: Object, claims: Claims) -> Claims:
        """Claims made under an earlier schema, as they read under today's. Built-in schemas do not change."""
        if self.has_fixed_schema:
            return claims
        result: Claims = {}
        for who, claim in claims.items():
            placed = self._at(live, claim.api_version, "")
            fields = reconcile(placed[0], claim.fields) if placed else claim.fields
            result[who] = claim if fields is claim.fields else claim._replace(fields=fieldset.ordered(fields))
        return result

    def _at(self, obj: Object, api_version: str, step: str) -> tuple[Shape, Object] | None:
        """An object, of whatever version it is, at a version; ConversionFailed where it does not fit there."""
        if api_version == self.api_version and obj.get("apiVersion", api_version) == api_version:
            return self.shape, obj
        placed = self._at_version(obj, api_version) if self._at_version else None
        if placed is not None and not self.has_fixed_schema:
            wrong = problems(*placed, repeats=True)
            if wrong:
                raise ConversionFailed(f"{step}{listed(wrong)}")
        return placed

    def _compare(self, old: Object, new: Object) -> Comparison:
        comparison = compare(self.shape, without_identity(old), without_identity(new))
        if self._reset is None or comparison is SAME:
            return comparison
        comparison = comparison.filtered(self._reset)
        return comparison if any(comparison) else SAME

    def _contest(
        self, comparison: Comparison, old: Object, new: Object, claims: Claims, owner: FieldOwner | None
    ) -> tuple[dict[FieldOwner, FieldSet], dict[FieldOwner, FieldSet]]:
        """For every other field manager, which of its fields were changed, and which were removed."""
        contested: dict[FieldOwner, FieldSet] = {}
        lost: dict[FieldOwner, FieldSet] = {}
        versions: dict[str, Comparison | None] = {self.api_version: comparison}
        for who, claim in claims.items():
            if who == owner:
                continue
            if claim.api_version not in versions:
                versions[claim.api_version] = self._compare_at(claim.api_version, old, new)
            changes = versions[claim.api_version]
            if changes is None:
                # The version is no longer served, so there is nothing left to own at it.
                lost[who] = claim.fields
                continue
            taken = fieldset.intersection(claim.fields, fieldset.union(changes.modified, changes.added))
            if taken:
                contested[who] = taken
            if changes.removed:
                lost[who] = changes.removed
        return contested, lost

    def _compare_at(self, api_version: str, old: Object, new: Object) -> Comparison | None:
        """The change as another version shows it."""
        if self._at_version is None:
            return SAME
        before = self._at(old, api_version, "failed to convert old object: ")
        after = self._at(new, api_version, "failed to convert new object: ")
        if before is None or after is None:
            return None
        comparison = compare(before[0], without_identity(before[1]), without_identity(after[1]))
        return comparison if self._reset_elsewhere is None else comparison.filtered(self._reset_elsewhere)

    # -- removing what is no longer applied ---------------------------------------------------------------------------

    def _prune(self, merged: Object, claims: Claims, last: Claim) -> Object:
        """The merged object without what was applied last time, is not applied now, and no other manager claims."""
        failed = "failed to prune fields: failed "
        placed = self._at(merged, last.api_version, f"{failed}to convert merged object to last applied version: ")
        if placed is None:
            return merged
        shape, whole = placed
        gone = ensure_named(shape, last.fields)
        # A field without an owner is not removed.
        managed: dict[str, FieldSet] = {last.api_version: NEVER_OWNED}
        for claim in claims.values():
            managed[claim.api_version] = fieldset.union(managed.get(claim.api_version, LEAF), claim.fields)
        if len(managed) == 1 and not fieldset.difference(gone, ensure_named(shape, managed[last.api_version])):
            return merged
        pruned = _removed(shape, whole, gone)
        # The version of the claim comes first: conversion may need fields that only this puts back.
        for version, owned in managed.items():
            pruned = self._with_owned(whole, pruned, version, owned)
        step = f"{failed}add back dangling items: failed to convert pruned object to last applied version: "
        placed = self._at(pruned, last.api_version, step)
        if placed is None:
            return merged
        # Only what the owner had applied may go; whatever else is missing now comes back.
        removed = fieldset.intersection(_difference(shape, whole, placed[1]), gone)
        result = self._at(_removed(shape, whole, removed), self.api_version, "failed to prune fields: ")
        return result[1] if result else merged

    def _with_owned(self, whole: Object, pruned: Object, api_version: str, owned: FieldSet) -> Object:
        """Restore what a manager claims at a version."""
        step = "failed to prune fields: failed add back owned items: failed to convert {} object at version {}: "
        full = self._at(whole, api_version, step.format("merged", api_version))
        part = self._at(pruned, api_version, step.format("pruned", api_version))
        if full is None or part is None:
            return pruned
        shape, obj = full
        removed = fieldset.difference(_difference(shape, obj, part[1]), ensure_named(shape, owned))
        return _removed(shape, obj, removed)


def listed(wrong: list[str]) -> str:
    """Several problems of an object as one text."""
    return wrong[0] if len(wrong) == 1 else "\n  ".join(("errors:", *wrong))


def _removed(shape: Shape, obj: Object, fields: FieldSet) -> Object:
    """An object without some fields; itself when there are none."""
    return (remove(shape, obj, fields) or {}) if fields else obj


def _difference(shape: Shape, whole: Object, part: Object) -> FieldSet:
    """The fields of an object, structs included, that a part of it does not have."""
    before = ensure_named(shape, field_set(shape, whole))
    return fieldset.difference(before, ensure_named(shape, field_set(shape, part)))


def _without(claims: Claims, taken: dict[FieldOwner, FieldSet]) -> Claims:
    """The claims without what was taken from them; owners left with nothing are gone."""
    if not taken:
        return claims
    result: Claims = {}
    for who, claim in claims.items():
        fields = fieldset.difference(claim.fields, taken[who]) if who in taken else claim.fields
        if fields:
            result[who] = claim if fields is claim.fields else claim._replace(fields=fields)
    return result
