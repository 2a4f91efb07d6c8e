"""`metadata.managedFields`: the record of who owns which field, and the writes that keep it.

A `FieldManager` serves one kind at one version on one endpoint. `update` is called for every create, update and patch
with the object about to be stored, before the strategy puts back what the endpoint may not write; `apply` is
server-side apply. Both are pure functions of their arguments. After admission `keep_times` undoes a change that is one
of times only, so that a write that changed nothing is none.

Entries in stored objects were written here, so they are taken as they are; entries a client sends are read strictly.
Sets of fields are shared between objects and never changed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.errors import BadRequest, Conflict, PlainError
from kapi.api.go.text import quote
from kapi.api.limits import REPORTED_ERRORS
from kapi.api.meta import format_time
from kapi.api.ownership import fieldset
from kapi.api.ownership.apply import (
    APPLY,
    NEVER_OWNED,
    UPDATE,
    Claim,
    Claims,
    ConversionFailed,
    FieldConflicts,
    FieldOwner,
    Ownership,
    listed,
    without_identity,
)
from kapi.api.ownership.fieldset import LEAF
from kapi.api.ownership.merge import same
from kapi.api.ownership.shape import InvalidValue, outline, problems
from kapi.api.patch import lastapplied

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.api.ownership.apply import AtVersion, Filter
    from kapi.api.ownership.fieldset import FieldSet, Path
    from kapi.api.ownership.shape import Shape

    Entry = dict[str, Any]

MOST_UPDATERS: Final = 10
"""The number of update entries an object keeps; beyond it the oldest are merged."""
ANCIENT: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
UNKNOWN: Final = "unknown"
FIELDS_TYPE: Final = "FieldsV1"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_REMEMBERED: Final = 128
_REMEMBERED_CHARACTERS: Final = 8192
"""The length of an outline as text, up to which the fields of new objects are remembered by it."""
_created: OrderedDict[tuple[FieldManager, object], bytes] = OrderedDict()
"""FieldsV1 of new objects, by field manager and `outline`; clients create many objects that differ in values only.

One for all field managers, so that it is bounded however many kinds there are. The oldest goes first. It has bytes, so
that each object has a set of its own, which an admission plug-in may change. Threads use it too: each use is one call.
"""


# -- entries ----------------------------------------------------------------------------------------------------------


def decode(entries: list[Entry]) -> Claims:
    """Read entries a client sent. Raises ValueError when one of them is malformed."""
    claims: Claims = {}
    for index, entry in enumerate(entries):
        if entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        kind = entry.get("fieldsType")
        if not kind:
            raise ValueError(f"missing fieldsType in managed fields entry {index}")
        if kind != FIELDS_TYPE:
            raise ValueError(f"invalid fieldsType {quote(kind)} in managed fields entry {index}")
        fields = fieldset.difference(fieldset.parse(entry.get("fieldsV1")), NEVER_OWNED)
        claims[_owner(entry)] = Claim(fields, entry["apiVersion"], entry.get("time"))
    return claims


def stored(entries: list[Entry] | None) -> Claims:
    """Read entries that were written here."""
    return {_owner(entry): Claim(entry["fieldsV1"], entry["apiVersion"], entry.get("time")) for entry in entries or ()}


def _owner(entry: Entry) -> FieldOwner:
    operation = entry["operation"]
    api_version = "" if operation == APPLY else entry["apiVersion"]
    return FieldOwner(entry.get("manager", ""), operation, api_version, entry.get("subresource", ""))


def encode(claims: Claims) -> list[Entry]:
    """The entries of claims, in their order: updates after applies, older before newer, those without time first."""
    entries = [_entry(owner, claim) for owner, claim in claims.items()]
    entries.sort(key=_entry_order)
    return entries


def _entry_order(entry: Entry) -> tuple[str, ...]:
    # Times are UTC and of one length, so their text is in their order.
    parts = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(part, "") for part in parts)


def _entry(owner: FieldOwner, claim: Claim) -> Entry:
    entry: Entry = {"manager": owner.manager, "operation": owner.operation, "apiVersion": claim.api_version}
    if not owner.manager:
        del entry["manager"]
    if claim.time is not None:
        entry["time"] = claim.time
    entry["fieldsType"] = FIELDS_TYPE
    entry["fieldsV1"] = claim.fields
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def is_reset(entries: Any) -> bool:
    """Return True if a client asks to forget all ownership: by an empty list, or by one empty entry."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not any(entries[0].values())))


def keep_times(live: Object, new: Object) -> None:
    """Give `new` the entries of `live` when nothing else than their times differs in the whole object."""
    before, after = live["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if not before or not after or len(before) != len(after) or before == after:
        return
    if all(_timeless(one) == _timeless(other) for one, other in zip(before, after, strict=True)):
        restored = {**new["metadata"], "managedFields": before}
        if {**new, "metadata": restored} == live:
            new["metadata"]["managedFields"] = before


def _timeless(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key != "time"}


def capped(claims: Claims) -> Claims:
    """At most so many claims of updates: the oldest of a version become one, under a name of its own."""
    updaters = [owner for owner in claims if owner.operation == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return claims
    claims = dict(claims)
    updaters.sort(key=lambda owner: (claims[owner].time or "", _identity(owner)))
    first: dict[str, FieldOwner] = {}
    joined: dict[FieldOwner, list[FieldSet]] = {}
    for owner in updaters:
        if excess <= 0:
            break
        claim = claims[owner]
        bucket = FieldOwner(ANCIENT, UPDATE, claim.api_version, "")
        if claim.api_version not in first:
            first[claim.api_version] = owner
            continue
        if bucket not in claims:
            claims[bucket] = claims.pop(first[claim.api_version])
        # The bucket itself may be among the oldest; then the one before it joins it.
        other = claims.pop(first[claim.api_version] if owner == bucket else owner)
        joined.setdefault(bucket, [claims[bucket].fields]).append(other.fields)
        claims[bucket] = claims[bucket]._replace(time=claim.time)
        excess -= 1
    for bucket, sets in joined.items():
        claims[bucket] = claims[bucket]._replace(fields=fieldset.union_of(sets))
    return claims


def _identity(owner: FieldOwner) -> str:
    """An owner as text, by which owners are sorted."""
    parts = zip(("manager", "operation", "apiVersion", "subresource"), owner, strict=True)
    return _encode({key: value for key, value in parts if value}).decode()


# -- writes -----------------------------------------------------------------------------------------------------------


class FieldManager:
    """Keeps `metadata.managedFields` of the objects of a kind, at a version, on an endpoint.

    `reset` takes out what the endpoint does not write, at every version with `resets_everywhere`; `at_version` converts
    between versions, and `has_fixed_schema=False` is for kinds whose schema may change under stored objects.
    """

    def __init__(
        self,
        shape: Shape,
        kind: GroupVersionKind,
        *,
        subresource: str = "",
        reset: Filter | None = None,
        resets_everywhere: bool = False,
        at_version: AtVersion | None = None,
        has_fixed_schema: bool = True,
    ) -> None:
        self._kind = kind
        self._subresource = subresource
        self._ownership = Ownership(
            shape,
            kind.api_version,
            reset=reset,
            resets_everywhere=resets_everywhere,
            at_version=at_version,
            has_fixed_schema=has_fixed_schema,
        )

    # -- create, update, patch ----------------------------------------------------------------------------------------

    def update(self, live: Object | None, new: Object, *, manager: str, now: dt.datetime) -> None:
        """Set the managedFields of `new`, which is to replace `live`, or to be created when there is none.

        Those in `new` are what the client sent. They replace the stored ones if they can be read, except on
        sub-resources; an empty list forgets all. An object without recorded ownership stays so until the first
        apply.
        """
        metadata = new["metadata"]
        sent = metadata.pop("managedFields", None)
        before = live["metadata"].get("managedFields") if live else None
        claims = self._sent(sent, before)
        if live is not None and not (before if claims is None else claims):
            return
        if claims is not None:
            # Managers that own nothing count as set, but there is nothing to record.
            claims = {owner: claim for owner, claim in claims.items() if claim.fields}
        if live is not None and self._is_same(live, new):
            entries = before if claims is None else encode(capped(claims))
        else:
            entries = self._updated(live, new, stored(before) if claims is None else claims, manager, now)
        if entries:
            metadata["managedFields"] = entries

    def _sent(self, sent: Any, before: list[Entry] | None) -> Claims | None:
        """Return what the client says; None when the stored entries stand."""
        if self._subresource or sent is None or sent == before:
            return None
        if is_reset(sent):
            return {}
        try:
            return decode(sent) or None
        except (ValueError, AttributeError):
            return None

    def _is_same(self, live: Object, new: Object) -> bool:
        rules = self._ownership
        return rules.has_fixed_schema and same(rules.shape, without_identity(live), without_identity(new))

    def _updated(
        self, live: Object | None, new: Object, claims: Claims, manager: str, now: dt.datetime
    ) -> list[Entry] | None:
        if live is None and not claims and self._ownership.has_fixed_schema:
            return self._of_new(new, manager, now)
        if not (self._fits(new) and self._fits(live or {})):
            # What changed in an object of another shape cannot be told; validation refuses it later.
            return encode(claims)
        try:
            return encode(capped(self._claimed(live or {}, new, claims, manager, now)))
        except InvalidValue:
            return encode(claims)
        except ConversionFailed:
            # kube-apiserver drops what it can no longer maintain; the next apply begins a new record.
            return None

    def _of_new(self, new: Object, manager: str, now: dt.datetime) -> list[Entry]:
        """The entries of a new object, all of which belongs to the manager that creates it."""
        try:
            data = self._fields_of_new(new)
        except InvalidValue:
            return []
        fields = _decode(data)
        if not fields:
            return []
        version = self._kind.api_version
        owner = FieldOwner(manager or UNKNOWN, UPDATE, version, self._subresource)
        return [_entry(owner, Claim(fields, version, format_time(now)))]

    def _fields_of_new(self, new: Object) -> bytes:
        """The fields that a new object sets, as JSON."""
        try:
            shown = outline(self._ownership.shape, without_identity(new))
        except InvalidValue:
            # That may be in one of several items with the same key, in which no field is owned.
            return _encode(self._ownership.update({}, new, {})[0])
        data = _created.get((self, shown))
        if data is None:
            data = _encode(self._ownership.update({}, new, {})[0])
            if len(str(shown)) <= _REMEMBERED_CHARACTERS:
                _created[self, shown] = data
                if len(_created) > _REMEMBERED:
                    _created.popitem(last=False)
        return data

    def _fits(self, obj: Object) -> bool:
        """Return True if an object fits its schema. Objects of kinds whose schema never changes were decoded."""
        rules = self._ownership
        return rules.has_fixed_schema or not problems(rules.shape, obj, repeats=True)

    def _claimed(self, live: Object, new: Object, claims: Claims, manager: str, now: dt.datetime) -> Claims:
        """The claims once a manager has written."""
        taken, claims = self._ownership.update(live, new, claims)
        if not taken:
            return claims
        owner = FieldOwner(manager or UNKNOWN, UPDATE, self._kind.api_version, self._subresource)
        previous = claims[owner].fields if owner in claims else LEAF
        fields = fieldset.union(previous, taken)
        return {**claims, owner: Claim(fields, self._kind.api_version, format_time(now))}

    # -- apply --------------------------------------------------------------------------------------------------------

    def apply(
        self, live: Object | None, config: Object, *, manager: str, force: bool = False, now: dt.datetime
    ) -> Object:
        """The object after a configuration was applied to it, or created from it; defaults are not filled in.

        A new object whose outer dictionary and metadata may be changed; deeper parts are shared with the arguments.
        Nulls of the configuration are in it. Raises `Conflict` when it would change what others own, `BadRequest`
        for a configuration of another kind or with managedFields, and `PlainError` for one that breaks the schema, or
        when the object itself does, be it that of an older version at which a manager owns fields.
        """
        self._check(config)
        current = live or {}
        if not self._ownership.has_fixed_schema:
            wrong = problems(self._ownership.shape, current, repeats=True)
            if wrong:
                raise PlainError(f"failed to create typed live object ({_place(current)}): {listed(wrong)}")
        before = (current.get("metadata") or {}).get("managedFields")
        claims = stored(before)
        if not claims and live is not None:
            claims = self._first_claims(live, now)
        try:
            merged, new_claims = self._merge(current, config, claims, manager, force=force)
        except ConversionFailed as failure:
            raise PlainError(str(failure)) from None
        except InvalidValue:
            raise PlainError(
                f"failed to create typed live object ({_place(current)}): {self._wrong(current)}"
            ) from None
        owner = self._applier(manager)
        if merged is not current and owner in new_claims:
            new_claims[owner] = new_claims[owner]._replace(time=format_time(now))
        entries = before if new_claims == claims and before else encode(new_claims)
        result = {**merged, "metadata": {**(merged.get("metadata") or {}), "managedFields": entries}}
        if not entries:
            del result["metadata"]["managedFields"]
        if manager == lastapplied.MANAGER:
            lastapplied.follow(result, config)
        return result

    def _first_claims(self, live: Object, now: dt.datetime) -> Claims:
        """The claims on an object without any, at its first apply: all that is there has one owner."""
        try:
            return capped(self._claimed({}, live, {}, BEFORE_FIRST_APPLY, now))
        except InvalidValue:
            raise PlainError(
                "failed to create manager for existing fields: "
                f"failed to convert new object ({_place(live)}) to smd typed: {self._wrong(live)}"
            ) from None

    def _wrong(self, obj: Object) -> str:
        """What is wrong with an object that decoding accepts and ownership cannot, such as an item without its key."""
        return listed(problems(self._ownership.shape, obj, repeats=True))

    def _applier(self, manager: str) -> FieldOwner:
        return FieldOwner(manager or UNKNOWN, APPLY, "", self._subresource)

    def _merge(
        self, live: Object, config: Object, claims: Claims, manager: str, *, force: bool
    ) -> tuple[Object, Claims]:
        owner = self._applier(manager)
        try:
            return self._ownership.apply(live, config, claims, owner, force=force)
        except FieldConflicts as conflicts:
            found = conflicts.fields
        if manager == lastapplied.MANAGER:
            allowed = lastapplied.unchanged_fields(self._ownership.shape, self._kind.api_version, live)
            found = {who: left for who, fields in found.items() if (left := fieldset.difference(fields, allowed))}
            if not found:
                return self._ownership.apply(live, config, claims, owner, force=True)
        raise _conflict(found)

    def _check(self, config: Object) -> None:
        """Return True if a configuration is one for this endpoint, and fits the schema."""
        named = _kind_of(config)
        if named != (self._kind.group, self._kind.version, self._kind.kind):
            raise BadRequest(f"invalid object type: {_kind_text(*named)}")
        metadata = config.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        if isinstance(metadata.get("managedFields"), list):
            raise BadRequest("metadata.managedFields must be nil")
        wrong = problems(self._ownership.shape, config)
        if wrong:
            raise PlainError(f"failed to create typed patch object ({_place(config)}): {listed(wrong)}")


def _place(obj: Object) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}; {_kind_text(*_kind_of(obj))}"


def _kind_of(config: Object) -> tuple[str, str, str]:
    group, slash, version = _text(config, "apiVersion").rpartition("/")
    if "/" in group or (slash and not group and not version):
        return ("", "", "")
    return (group, version, _text(config, "kind"))


def _kind_text(group: str, version: str, kind: str) -> str:
    return f"{group}/{version}, Kind={kind}"


def _text(obj: Object, key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


def _conflict(found: dict[FieldOwner, FieldSet]) -> Conflict:
    """The answer to an apply that would change what others own; of very many fields it names the first."""
    by_owner = [(owner, list(fieldset.paths(found[owner]))) for owner in sorted(found, key=_identity)]
    count = sum(len(paths) for _, paths in by_owner)
    causes: list[dict[str, str]] = []
    lines: list[str] = []
    for owner, paths in by_owner:
        named = [fieldset.text(path) for path in paths[: REPORTED_ERRORS - len(causes)]]
        if named:
            lines += (f"conflicts with {_shown(owner)}:", *(f"- {field}" for field in named))
        what = f"conflict with {_shown(owner)}"
        causes += ({"reason": "FieldManagerConflict", "message": what, "field": field} for field in named)
    if count == 1:
        message = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        more = [f"and {count - len(causes)} more"] if count > len(causes) else []
        message = f"{count} conflicts: " + "\n".join(lines + more)
    return Conflict(f"Apply failed with {message}", details={"causes": causes})


def _shown(owner: FieldOwner) -> str:
    shown = quote(owner.manager)
    if owner.subresource:
        shown += f" with subresource {quote(owner.subresource)}"
    return f"{shown} using {owner.api_version}" if owner.operation == UPDATE else shown


# -- scale ------------------------------------------------------------------------------------------------------------

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = fieldset.fields("spec", "replicas")

ReplicasPaths = dict[str, "Path | None"]
"""The path of the replicas by version of the scaled kind; None for a version that cannot be scaled."""


def scale_entries(entries: list[Entry] | None, replicas: ReplicasPaths) -> list[Entry]:
    """The managedFields of the Scale of an object: who owns the object's replicas owns the Scale's."""
    claims: Claims = {}
    for owner, claim in stored(entries).items():
        path = replicas.get(claim.api_version)
        if path is not None and fieldset.contains(claim.fields, path):
            claims[owner] = Claim(fieldset.of(_REPLICAS), SCALE_VERSION, claim.time)
    return encode(claims)


def parent_entries(
    entries: list[Entry] | None, scale: list[Entry] | None, api_version: str, replicas: ReplicasPaths
) -> list[Entry]:
    """The managedFields of an object after its Scale was written, given those of the Scale.

    Owners of the replicas who are no longer owners in the Scale lose them. New owners come without a time, as in the
    reference. The manager of both is the same although the versions differ; kube-apiserver makes two entries of it.
    """
    owners = {owner._replace(api_version=""): claim for owner, claim in stored(scale).items()}
    claims: Claims = {}
    for owner, claim in stored(entries).items():
        if claim.api_version not in replicas:
            continue
        path = replicas[claim.api_version]
        fields = claim.fields
        if path is not None and fieldset.contains(fields, path):
            still = owners.pop(owner._replace(api_version=""), None)
            fields = fieldset.difference(fields, fieldset.of(path)) if still is None else fields
        if fields:
            claims[owner] = claim._replace(fields=fields)
    path = replicas.get(api_version)
    for owner, claim in owners.items():
        if path is not None and fieldset.contains(claim.fields, _REPLICAS):
            mine = owner if owner.operation == APPLY else owner._replace(api_version=api_version)
            previous = claims.get(mine, Claim(LEAF, api_version))
            claims[mine] = previous._replace(fields=fieldset.union(previous.fields, fieldset.of(path)))
    return encode(claims)
