"""The rules for `metadata`, the same for every kind: on create, and from one version of an object to the next.

What a kind adds (its rule for names, whether it lives in a namespace) comes in as arguments. The checks read decoded
objects, change nothing, and answer field errors in kube-apiserver's order and words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kapi.api import names
from kapi.api.fielderror import FieldError, forbidden, immutable, invalid, required, too_long
from kapi.api.go.text import quote
from kapi.api.meta import format_time, parse_time
from kapi.api.selectors import validate_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN_FINALIZER, FOREGROUND_FINALIZER})

_ANNOTATION_BYTES = 256 * 1024
MAX_FIELD_MANAGER_BYTES = 128
_SUBRESOURCE_BYTES = 256
_IMMUTABLE_NAMES = ("name", "namespace", "uid")
_IMMUTABLE_MOMENTS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_SHOWN_OWNERS = 1000
"""Owner references in the errors of one object about more than one controller, before these become too long."""
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


class NameRule(Protocol):
    """A kind's rule for names, and for prefixes of generated ones; see `kapi.api.names`."""

    def __call__(self, name: str, *, prefix: bool = False) -> list[str]:
        """Return what is wrong with the name, as sentences."""
        ...


def validate_object_meta(
    meta: Mapping[str, Any],
    *,
    namespaced: bool,
    name_rule: NameRule,
    path: str = "metadata",
    builtin: bool = True,
) -> list[FieldError]:
    """Validate the metadata of an object about to be stored; generated names have been made by now.

    Built-in kinds (`builtin`) also refuse finalizers without a domain, except three; custom kinds only warn of them.
    """
    errors = _name_errors(meta, name_rule, path)
    errors.extend(_namespace_errors(meta, path, namespaced=namespaced))
    if (generation := meta.get("generation", 0)) < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))
    errors.extend(_shared_errors(meta, path))
    finalizers = meta.get("finalizers") or []
    errors.extend(_finalizer_errors(finalizers, f"{path}.finalizers"))
    errors.extend(_managers_errors(meta, path))
    if builtin:
        errors.extend(unqualified_finalizers(finalizers, f"{path}.finalizers"))
    return errors


def validate_object_meta_update(
    new: Mapping[str, Any], old: Mapping[str, Any], *, path: str = "metadata", builtin: bool = True
) -> list[FieldError]:
    """Validate changed metadata against what is stored."""
    errors: list[FieldError] = []
    finalizers = new.get("finalizers") or []
    if old.get("deletionTimestamp"):
        errors.extend(_new_finalizer_errors(finalizers, old.get("finalizers") or [], path))
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if (generation := new.get("generation", 0)) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", generation, "must not be decremented"))
    errors.extend(_immutable_errors(new, old, path))
    errors.extend(_shared_errors(new, path))
    errors.extend(_managers_errors(new, path))
    if builtin:
        errors.extend(unqualified_finalizers(finalizers, f"{path}.finalizers"))
    return errors


def _immutable_errors(new: Mapping[str, Any], old: Mapping[str, Any], path: str) -> list[FieldError]:
    errors = [
        immutable(f"{path}.{field}", new.get(field, ""))
        for field in _IMMUTABLE_NAMES
        if new.get(field, "") != old.get(field, "")
    ]
    for field in _IMMUTABLE_MOMENTS:
        value = new.get(field)
        if value != old.get(field) and _moment(value) != _moment(old.get(field)):
            errors.append(immutable(f"{path}.{field}", _moment(value)))
    return errors


def _moment(value: Any) -> Any:
    """A time in its one spelling, so that two spellings of a moment are no change; anything else as it is."""
    moment = parse_time(value) if isinstance(value, str) else None
    return format_time(moment) if moment else value


def _name_errors(meta: Mapping[str, Any], name_rule: NameRule, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name, generate_name = meta.get("name"), meta.get("generateName")
    if generate_name:
        sentences = name_rule(generate_name, prefix=True)
        errors.extend(invalid(f"{path}.generateName", generate_name, sentence) for sentence in sentences)
    if name:
        errors.extend(invalid(f"{path}.name", name, sentence) for sentence in name_rule(name))
    else:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    return errors


def _namespace_errors(meta: Mapping[str, Any], path: str, *, namespaced: bool) -> list[FieldError]:
    namespace = meta.get("namespace")
    if not namespaced:
        return [forbidden(f"{path}.namespace", "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(f"{path}.namespace")]
    return [invalid(f"{path}.namespace", namespace, sentence) for sentence in names.dns_label(namespace)]


def _shared_errors(meta: Mapping[str, Any], path: str) -> list[FieldError]:
    """Validate what create and update have in common."""
    errors: list[FieldError] = []
    if labels := meta.get("labels"):
        errors.extend(validate_labels(labels, f"{path}.labels"))
    if annotations := meta.get("annotations"):
        errors.extend(validate_annotations(annotations, f"{path}.annotations"))
    if owners := meta.get("ownerReferences"):
        errors.extend(_owner_errors(owners, f"{path}.ownerReferences"))
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Keys are label keys in either case; keys and values together take at most 256 KiB."""
    errors: list[FieldError] = []
    for key in annotations:
        errors.extend(invalid(path, key, sentence) for sentence in names.qualified_name(key.lower()))
    return errors + annotation_size_errors(annotations, path)


def annotation_size_errors(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """Return an error if keys and values together take more than 256 KiB."""
    size = sum(names.byte_length(key) + names.byte_length(value) for key, value in annotations.items())
    return [too_long(path, _ANNOTATION_BYTES)] if size > _ANNOTATION_BYTES else []


# -- owners -----------------------------------------------------------------------------------------------------------


def _owner_errors(owners: list[dict[str, Any]], path: str) -> list[FieldError]:
    """Validate owner references. Each error about controllers shows all of them, so of a long list only one is made."""
    errors: list[FieldError] = []
    controller, reported = "", 0
    for owner in owners:
        errors.extend(_owner_reference_errors(owner, path))
        if not owner.get("controller"):
            continue
        name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller and reported * len(owners) <= _SHOWN_OWNERS:
            reported += 1
            found = f'Only one reference can have Controller set to true. Found "true" in references for {controller}'
            errors.append(invalid(path, [_printable_owner(each) for each in owners], f"{found} and {name}"))
        controller = controller or name
    return errors


def _owner_reference_errors(owner: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    api_version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    version = "" if api_version.count("/") > 1 else api_version.rpartition("/")[2]
    if not version:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    errors.extend(
        invalid(f"{path}.{field}", "", "must not be empty") for field in ("kind", "name", "uid") if not owner.get(field)
    )
    if api_version in {"v1", "/v1"} and kind == "Event":
        what = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, _printable_owner(owner), what))
    return errors


def _printable_owner(owner: dict[str, Any]) -> dict[str, Any]:
    """A reference in the field order messages have."""
    printable = {field: owner[field] for field in _OWNER_FIELDS if owner.get(field) is not None}
    return {"apiVersion": "", "kind": "", "name": "", "uid": ""} | printable


# -- finalizers -------------------------------------------------------------------------------------------------------


def _finalizer_errors(finalizers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors.extend(invalid(path, finalizer, sentence) for sentence in names.qualified_name(finalizer))
    if ORPHAN_FINALIZER in finalizers and FOREGROUND_FINALIZER in finalizers:
        what = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        errors.append(invalid(path, finalizers, what))
    return errors


def unqualified_finalizers(finalizers: Iterable[str], path: str) -> list[FieldError]:
    """Finalizers that have no domain and are none of the three old ones; an error for some kinds, advice for others."""
    what = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}[{index}]", finalizer, what)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _new_finalizer_errors(new: list[str], old: list[str], path: str) -> list[FieldError]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = "[]string{" + ", ".join(map(quote, added)) + "}"
    what = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
    return [forbidden(f"{path}.finalizers", what)]


# -- managers ---------------------------------------------------------------------------------------------------------


def _managers_errors(meta: Mapping[str, Any], path: str) -> list[FieldError]:
    entries = enumerate(meta.get("managedFields") or ())
    return [error for index, entry in entries for error in _manager_errors(entry, f"{path}.managedFields[{index}]")]


def _manager_errors(entry: dict[str, Any], path: str) -> list[FieldError]:
    errors = []
    if (operation := entry.get("operation", "")) not in {"Apply", "Update"}:
        errors.append(invalid(f"{path}.operation", operation, "must be `Apply` or `Update`"))
    if (fields_type := entry.get("fieldsType")) and fields_type != "FieldsV1":
        errors.append(invalid(f"{path}.fieldsType", fields_type, "must be `FieldsV1`"))
    errors.extend(validate_field_manager(entry.get("manager", ""), f"{path}.manager"))
    if names.byte_length(entry.get("subresource", "")) > _SUBRESOURCE_BYTES:
        errors.append(too_long(f"{path}.subresource", _SUBRESOURCE_BYTES))
    return errors


def validate_field_manager(manager: str, path: str = "fieldManager") -> list[FieldError]:
    """A manager's name: 128 bytes, printable characters only."""
    errors = [too_long(path, MAX_FIELD_MANAGER_BYTES)] if names.byte_length(manager) > MAX_FIELD_MANAGER_BYTES else []
    if not manager.isprintable():
        position = 0
        # Each error shows the whole name, so no more of a name that is too long is looked at.
        for character in manager[:MAX_FIELD_MANAGER_BYTES]:
            if not character.isprintable():
                what = f"invalid character U+{ord(character):04X} (at position {position})"
                errors.append(invalid(path, manager, what))
            position += names.byte_length(character)
    return errors
