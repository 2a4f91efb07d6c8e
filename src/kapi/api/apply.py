"""Who owns which field, and what a write does to it: the rules of server-side apply, without the wire.

An owner has a claim: a set of fields, at an API version. An update moves the fields it changed from the claims of
others to its own. An apply merges a configuration into the object; its claim is then what the configuration mentions.
Fields the owner applied before and no longer mentions go, unless somebody else claims them. Changing a field that
somebody else claims is a conflict, which force resolves by taking it.

Claims of other versions of the kind are judged on the object converted to that version. Nothing here knows of
`metadata.managedFields`; that is `kapi.api.managedfields`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api import fieldset
from kapi.api.fieldset import LEAF, FieldSet
from kapi.api.typedmerge import SAME, compare, merge, remove
from kapi.api.typedvalue import ensure_named, field_set, reconcile

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.typedmerge import Comparison
    from kapi.api.typedvalue import Shape

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


class Owner(NamedTuple):
    """Who has a claim. One who applies is the same at every version, so `api_version` is empty for it."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class Claim(NamedTuple):
    """What an owner owns, in the order of the wire, and when that last changed anything."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Claims = dict[Owner, Claim]


class FieldConflicts(Exception):  # noqa: N818 - a finding, turned into an API error by the caller
    """An apply would change fields that others claim: for each of them, which."""

    def __init__(self, fields: dict[Owner, FieldSet]) -> None:
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
    """The object without the fields nobody owns; the same values in new outer dictionaries."""
    view = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    metadata = obj.get("metadata")
    if metadata:
        view["metadata"] = {key: value for key, value in metadata.items() if key not in _HIDDEN}
    return view


class Ownership:
    """The rules for one kind, at one version, on one endpoint.

    `reset` keeps out of claims what the endpoint does not write. Without `at_version`, claims of other versions are
    left alone.
    """

    def __init__(
        self,
        shape: Shape,
        api_version: str,
        *,
        reset: Filter | None = None,
        at_version: AtVersion | None = None,
        has_fixed_schema: bool = True,
    ) -> None:
        self.shape = shape
        self.api_version = api_version
        self._reset = reset
        self._at_version = at_version
        self._has_fixed_schema = has_fixed_schema

    def update(self, live: Object, new: Object, claims: Claims) -> tuple[FieldSet, Claims]:
        """What a write changed or added, and the claims of everybody once that is taken from them."""
        comparison = self._compare(live, new)
        if comparison is SAME:
            return LEAF, claims
        claims = self.reconciled(live, claims)
        contested, lost = self._contest(comparison, live, new, claims, None)
        remaining = _without(_without(claims, contested), lost)
        return fieldset.union(comparison.modified, comparison.added), remaining

    def apply(self, live: Object, config: Object, claims: Claims, owner: Owner, *, force: bool) -> tuple[Object, Claims]:
        """The merged object and the claims. Raises `FieldConflicts` unless forced.

        The very same object comes back when nothing changed. `config` must be free of `problems`.
        """
        claims = self.reconciled(live, claims)
        last = claims.get(owner)
        merged = merge(self.shape, live, config)
        owned = fieldset.ordered(field_set(self.shape, config))
        if self._reset:
            owned = self._reset(owned)
        mine = Claim(owned, self.api_version, last.time if last else None)
        claims = {**claims, owner: mine}
        if last is not None and (last.fields != fieldset.difference(owned, NEVER_OWNED) or last[1] != mine[1]):
            merged = self._prune(merged, claims, owner, last)
        comparison = self._compare(live, merged) if merged is not live else SAME
        if comparison is not SAME:
            contested, lost = self._contest(comparison, live, merged, claims, owner)
            if contested and not force:
                raise FieldConflicts(contested)
            claims = _without(_without(claims, contested), lost)
        return merged, {who: claim for who, claim in claims.items() if claim.fields}

    def reconciled(self, live: Object, claims: Claims) -> Claims:
        """Claims made under an earlier schema, as they read under today's. Built-in schemas do not change."""
        if self._has_fixed_schema:
            return claims
        result: Claims = {}
        for who, claim in claims.items():
            placed = self._at(live, claim.api_version)
            if placed is not None:
                result[who] = claim._replace(fields=reconcile(placed[0], claim.fields))
            elif self._at_version is None:
                result[who] = claim
        return result

    def _at(self, obj: Object, api_version: str) -> tuple[Shape, Object] | None:
        if api_version == self.api_version:
            return self.shape, obj
        return self._at_version(obj, api_version) if self._at_version else None

    def _compare(self, old: Object, new: Object) -> Comparison:
        comparison = compare(self.shape, without_identity(old), without_identity(new))
        if self._reset is None or comparison is SAME:
            return comparison
        comparison = comparison.filtered(self._reset)
        return comparison if any(comparison) else SAME

    def _contest(
        self, comparison: Comparison, old: Object, new: Object, claims: Claims, owner: Owner | None
    ) -> tuple[dict[Owner, FieldSet], dict[Owner, FieldSet]]:
        """For everybody else, which of their fields were changed, and which are gone."""
        contested: dict[Owner, FieldSet] = {}
        lost: dict[Owner, FieldSet] = {}
        versions = {self.api_version: (comparison, fieldset.union(comparison.modified, comparison.added))}
        for who, claim in claims.items():
            if who == owner:
                continue
            if claim.api_version not in versions:
                versions[claim.api_version] = self._changes_at(claim.api_version, old, new, claim.fields)
            judged, touched = versions[claim.api_version]
            taken = fieldset.intersection(claim.fields, touched)
            if taken:
                contested[who] = taken
            if judged.removed:
                lost[who] = judged.removed
        return contested, lost

    def _changes_at(self, api_version: str, old: Object, new: Object, owned: FieldSet) -> tuple[Comparison, FieldSet]:
        """The change as another version shows it. A version that is no longer served leaves nothing to own."""
        if self._at_version is None:
            return SAME, LEAF
        before, after = self._at_version(old, api_version), self._at_version(new, api_version)
        if before is None or after is None:
            return SAME._replace(removed=owned), LEAF
        comparison = compare(before[0], without_identity(before[1]), without_identity(after[1]))
        return comparison, fieldset.union(comparison.modified, comparison.added)

    # -- removing what is no longer applied -----------------------------------------------------------------------

    def _prune(self, merged: Object, claims: Claims, owner: Owner, last: Claim) -> Object:
        """The merged object without what the owner applied last time, does not apply now, and nobody else claims."""
        placed = self._at(merged, last.api_version)
        if placed is None or not last.fields:
            return merged
        shape, whole = placed
        gone = ensure_named(shape, last.fields)
        managed: dict[str, FieldSet] = {}
        for claim in claims.values():
            managed[claim.api_version] = fieldset.union(managed.get(claim.api_version, LEAF), claim.fields)
        mine = managed.pop(last.api_version, LEAF)
        if not managed and not fieldset.difference(gone, ensure_named(shape, mine)):
            return merged
        pruned: Any = remove(shape, whole, gone)
        # First at the version of the claim, because conversion may need fields that only this adds back.
        pruned = _with_owned(shape, whole, pruned, mine)
        pruned = self._with_others(whole, pruned, managed, last.api_version)
        return self._finished(shape, whole, pruned, gone)

    def _with_others(self, whole: Object, pruned: Object, managed: dict[str, FieldSet], api_version: str) -> Object:
        """Put back what claims of other versions hold."""
        for version, owned in managed.items():
            full, part = self._at(whole, version), self._at(pruned, version)
            if full is None or part is None:
                continue
            restored = _with_owned(full[0], full[1], part[1], owned)
            back = self._at_from(restored, version, api_version)
            pruned = back if back is not None else pruned
        return pruned

    def _at_from(self, obj: Object, version: str, wanted: str) -> Object | None:
        if version == wanted:
            return obj
        placed = self._at_version(obj, wanted) if self._at_version else None
        return placed[1] if placed else None

    def _finished(self, shape: Shape, whole: Object, pruned: Object, gone: FieldSet) -> Object:
        """Only what the owner had applied may really go; the rest of what is missing comes back."""
        before = ensure_named(shape, field_set(shape, whole))
        after = ensure_named(shape, field_set(shape, pruned))
        removed = fieldset.intersection(fieldset.difference(before, after), gone)
        result = remove(shape, whole, removed) if removed else whole
        placed: Object | None = result
        if self._at_version is not None and whole.get("apiVersion") not in (None, self.api_version):
            converted = self._at_version(result, self.api_version)
            placed = converted[1] if converted else None
        return result if placed is None else placed


def _with_owned(shape: Shape, whole: Object, pruned: Object, owned: FieldSet) -> Any:
    """Put back what somebody claims."""
    before = ensure_named(shape, field_set(shape, whole))
    after = ensure_named(shape, field_set(shape, pruned))
    kept = fieldset.union(after, ensure_named(shape, owned))
    removed = fieldset.difference(before, kept)
    return remove(shape, whole, removed) if removed else whole


def _without(claims: Claims, taken: dict[Owner, FieldSet]) -> Claims:
    """The claims without what was taken from them; owners left with nothing are gone."""
    if not taken:
        return claims
    result: Claims = {}
    for who, claim in claims.items():
        fields = fieldset.difference(claim.fields, taken[who]) if who in taken else claim.fields
        if fields:
            result[who] = claim if fields is claim.fields else claim._replace(fields=fields)
    return result
