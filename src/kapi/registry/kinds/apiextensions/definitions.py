"""The rules of CustomResourceDefinition.

What a definition must look like is in `validation`, what its status says in `conditions`, its older form in `v1beta1`.
Unlike kube-apiserver, where controllers follow, a definition that was written here has its whole status: its names are
accepted or not, and it is established or not, in the same write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.go.text import quote
from kapi.registry import reservations
from kapi.registry.kinds.apiextensions import conditions, schemafields, v1beta1, validation
from kapi.registry.kinds.apiextensions.options import schema_of
from kapi.registry.strategy import Companions, Strategy
from kapi.schema.formats import supported_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.storage.interface import Operation

NAMES: Final = "resourcenames"
"""The reservations of names, one per API group."""
GROUP: Final = "apiextensions.k8s.io"
RESOURCE: Final = f"customresourcedefinitions.{GROUP}"

_WEBHOOK_PORT: Final = 443

_canonical = msgspec.json.Encoder(order="sorted").encode


class DefinitionStrategy(Strategy):
    """The rules of definitions.

    An object that came in as v1beta1 carries marks in its spec (see `v1beta1`) from its conversion until it is
    validated, which takes them away: what is stored never has any.
    """

    allow_unconditional_update = False
    allows_any_finalizer = True
    tracks_generation = True
    has_status = True
    validates_off_loop_from = 0
    """Each rule in a schema is compiled and priced, which takes a multiple of what its size says."""

    def others(self, write: Write, obj: Object) -> Iterable[Object]:
        """The definitions that may hold names `obj` wants."""
        group = (obj.get("spec") or {}).get("group", "")
        return write.lookup.list(RESOURCE, ending=f".{group}")

    def default(self, obj: Object) -> None:
        """Names follow from the kind, objects are converted by changing their version, webhooks listen on 443."""
        spec = obj.get("spec")
        if spec is None:
            return
        names = spec.get("names") or {}
        kind = names.get("kind")
        if kind:
            if not names.get("singular"):
                names["singular"] = kind.lower()
            if not names.get("listKind"):
                names["listKind"] = f"{kind}List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        config = (spec["conversion"].get("webhook") or {}).get("clientConfig") or {}
        if config.get("service") is not None:
            config["service"].setdefault("port", _WEBHOOK_PORT)

    def prepare_create(self, write: Write, obj: Object) -> None:
        """Give out names and establish."""
        obj["status"] = conditions.complete(_empty_status())
        conditions.record_storage_version(obj)
        conditions.update(obj, self.others(write, obj), write.now)

    def prepare_update(self, write: Write, obj: Object, old: Object) -> None:
        """The same, on the status that is stored."""
        conditions.record_storage_version(obj)
        conditions.update(obj, self.others(write, obj), write.now)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate a new definition, by the rules of the version it came in."""
        legacy = v1beta1.is_marked(obj)
        errors = validation.create_errors(obj, legacy=legacy)
        v1beta1.unmark(obj)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate a changed definition; what is stored already may mostly stay."""
        legacy = v1beta1.is_marked(obj)
        errors = validation.update_errors(obj, old, legacy=legacy)
        v1beta1.unmark(obj)
        return errors

    def prepare_status(self, write: Write, obj: Object, old: Object) -> None:
        """A status always says in which versions objects are stored, and has the fields that Go always writes."""
        obj["status"] = conditions.complete(_empty_status() | (obj.get("status") or {}))
        if not obj["status"].get("storedVersions"):
            conditions.record_storage_version(obj)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Names in a status must be names."""
        return validation.status_errors(obj)

    def commit_with(self, write: Write, obj: Object | None, old: Object | None) -> Companions | None:
        """Commit the names that a definition takes: a reservation of its group is written with it.

        Two definitions of one group that take names at the same time write the same reservation. So one of them is
        decided again, when the names of the other are known.
        """
        if obj is None:
            return None
        definition = {**obj}
        if not write.subresource:
            conditions.accept_again(definition, old, self.others(write, obj), write.now)
        names = conditions.accepted_names(definition)
        if names == conditions.accepted_names(old or {}):
            return Companions(obj=definition)
        return Companions([self._reservation(write, definition, names)], definition)

    def _reservation(self, write: Write, definition: Object, names: Object) -> Operation:
        """The operation that reserves names in a group, if the group is as it was when they were chosen."""
        group = definition["spec"]["group"]
        _, revision = reservations.find(write.store.hub, NAMES, group)
        return reservations.put(NAMES, group, {"definition": definition["metadata"]["name"], **names}, revision)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Any change of the spec, marks aside; `1` and `true` in a schema are not the same."""
        new, before = v1beta1.unmarked(obj.get("spec") or {}), old.get("spec") or {}
        return bool(new != before) or bool(_canonical(new) != _canonical(before))

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Formats that mean nothing here, unless they were there before."""
        before = _unknown_formats(old) if old is not None else ()
        return [f"unrecognized format {quote(name)}" for name in _unknown_formats(obj) if name not in before]


def _empty_status() -> dict[str, Any]:
    return {"conditions": None, "acceptedNames": None, "storedVersions": []}


def _unknown_formats(obj: Object) -> list[str]:
    versions: list[Mapping[str, Any]] = (obj.get("spec") or {}).get("versions") or []
    found = (
        one["format"]
        for version in versions
        for one in schemafields.walk(schema_of(version) or {})
        if one.get("format") and not supported_format(one["format"], one.get("type", ""))
    )
    return list(dict.fromkeys(found))


STRATEGIES: dict[tuple[str, str], Strategy] = {(GROUP, "CustomResourceDefinition"): DefinitionStrategy()}
