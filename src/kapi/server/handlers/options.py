"""The query parameters of reads and writes, decoded and validated before anything is done.

Wrong values are 400 when they cannot be read and 422 when they can but may not be, with the texts clients know.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapi.api.errors import BadRequest, Invalid, PlainError
from kapi.api.fielderror import FieldError, forbidden, not_supported, required, show
from kapi.api.meta import GroupKind
from kapi.api.objectmeta import validate_field_manager
from kapi.api.selectors import FieldSelector, LabelSelector, SelectorError
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.registry.request import WriteOptions
from kapi.server.requestinfo import is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.registry.resource import Resource

META = "meta.k8s.io"
TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 (a format's name)
LATEST = -1
"""A continue token's revision when consistency has been given up."""


class ListOptions(NamedTuple):
    """The options of a list or watch. `revision` is None when it was not given."""

    labels: LabelSelector | None
    fields: FieldSelector | None
    limit: int
    token: str
    revision: int | None
    match: str
    timeout_seconds: int
    bookmarks: bool
    initial_events: bool | None
    includes_uninitialized: bool = False
    """Objects that initializers have not finished are wanted too."""

    @property
    def selective(self) -> bool:
        """True if there is a selector."""
        return self.labels is not None or self.fields is not None


def list_options(query: Mapping[str, str], resource: Resource, *, watch: bool) -> ListOptions:
    """Decode and validate the options of a list or a watch."""
    text = query.get("resourceVersion", "")
    match = query.get("resourceVersionMatch", "")
    initial = is_true(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    if watch and text in ("", "0") and initial is None and not match:
        initial, match = True, "NotOlderThan"
    token = query.get("continue", "")
    errors = _validate_list(text, match, token, initial, watch=watch)
    if errors:
        raise Invalid.of(GroupKind(META, "ListOptions"), "", errors)
    labels = _labels(query.get("labelSelector", ""))
    fields = _fields(query.get("fieldSelector", ""), resource)
    return ListOptions(
        labels,
        fields,
        _integer(query, "limit"),
        token,
        _revision(text, watch=watch),
        match,
        _integer(query, "timeoutSeconds"),
        is_true(query, "allowWatchBookmarks"),
        initial,
        is_true(query, "includeUninitialized"),
    )


def _validate_list(version: str, match: str, token: str, initial: bool | None, *, watch: bool) -> list[FieldError]:
    if watch:
        return _validate_watch(match, token, initial)
    errors: list[FieldError] = []
    field = "resourceVersionMatch"
    if match:
        if not version:
            errors.append(forbidden(field, f"{field} is forbidden unless resourceVersion is provided"))
        if token:
            errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(field, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and version == "0":
            errors.append(forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _validate_watch(match: str, token: str, initial: bool | None) -> list[FieldError]:
    errors: list[FieldError] = []
    field = "resourceVersionMatch"
    if initial is not None and match != "NotOlderThan":
        errors.append(forbidden(field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
    if match:
        if initial is None:
            errors.append(forbidden(field, f"{field} is forbidden for watch unless sendInitialEvents is provided"))
        if match != "NotOlderThan":
            errors.append(not_supported(field, match, ("NotOlderThan",)))
        if token:
            errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
    return errors


def revision_of(text: str) -> int | None:
    """The resourceVersion of a get; None when it was not given."""
    return _revision(text, watch=True)


def _revision(text: str, *, watch: bool) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return int(text)
    message = f"resourceVersion: Invalid value: {show(text)}: strconv.ParseUint: parsing {show(text)}: invalid syntax"
    if watch:
        raise PlainError(message)
    raise BadRequest(f"invalid resource version: {message}")


def _integer(query: Mapping[str, str], key: str) -> int:
    text = query.get(key, "")
    return parse_integer(text) if text else 0


def parse_integer(text: str) -> int:
    """Read a whole number of a query; BadRequest in the words of Go's parser."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"strconv.ParseInt: parsing {show(text)}: invalid syntax")
    if len(digits) > 18:
        raise BadRequest(f"strconv.ParseInt: parsing {show(text)}: value out of range")
    return int(text)


def _labels(text: str) -> LabelSelector | None:
    if not text:
        return None
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        raise BadRequest(str(error)) from None


def _fields(text: str, resource: Resource) -> FieldSelector | None:
    if not text:
        return None
    try:
        selector = FieldSelector.parse(text)
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    return selector.transform(lambda key, value: (_field_key(key, resource), value))


def _field_key(key: str, resource: Resource) -> str:
    if key == "metadata.name" or (key == "metadata.namespace" and resource.namespaced):
        return key
    if key in resource.field_aliases:
        return resource.field_aliases[key]
    strategy = resource.stored.strategy
    if key in strategy.selectable_aliases:
        return strategy.selectable_aliases[key]
    if key in resource.selectable:
        return key
    if resource.custom is not None:
        raise BadRequest(f"field label not supported: {key}")
    if key == "metadata.namespace" and not resource.selectable:
        return key
    if strategy.unknown_field_message:
        raise BadRequest(strategy.unknown_field_message.format(key=key))
    if resource.selectable:
        raise BadRequest(f"field label not supported: {key}")
    raise BadRequest(f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"')


# -- continue tokens ------------------------------------------------------------------------------------------------


class Token(NamedTuple):
    """The position at which a paged list continues: the snapshot and the first key, relative to the list's prefix.

    `time` is when its first page was made, in seconds since 1970; 0 if unknown. Without it a token of the latest
    revision would never expire on a server that is not written to (etcd's compaction writes, ours does not).
    """

    revision: int
    start: str
    time: int = 0

    def encode(self) -> str:
        """As clients carry it."""
        raw = msgspec.json.encode({"v": TOKEN_VERSION, "rv": self.revision, "start": self.start, "time": self.time})
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_token(text: str) -> Token:
    """Read a token; BadRequest when it is not one of ours."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data") from None
    try:
        fields: Any = json.decode(raw)
    except DecodeError as error:
        raise _bad_token(str(error)) from None
    if not isinstance(fields, dict) or fields.get("v") != TOKEN_VERSION:
        version = fields.get("v", "") if isinstance(fields, dict) else ""
        raise _bad_token(f"server does not recognize this encoded version {version}")
    revision, start = fields.get("rv"), fields.get("start")
    if not isinstance(revision, int) or revision == 0 or revision < LATEST:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    if not isinstance(start, str) or not start:
        raise _bad_token(f"encoded start key empty (version {TOKEN_VERSION})")
    if posixpath.normpath("/" + start.lstrip("/")) != "/" + start.lstrip("/"):
        raise _bad_token(start)
    time = fields.get("time")
    return Token(revision, start.lstrip("/"), time if isinstance(time, int) else 0)


def _bad_token(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {why}")


# -- writes ---------------------------------------------------------------------------------------------------------


def write_options(query: Mapping[str, str], kind: str, *, applies: bool = False) -> WriteOptions:
    """Decode and validate the options of a create (`CreateOptions`), update, patch or apply."""
    errors: list[FieldError] = []
    if applies and not query.get("fieldManager"):
        errors.append(required("fieldManager", "is required for apply patch"))
    dry_run = query.get("dryRun", "")
    if "dryRun" in query and dry_run != "All":
        errors.append(not_supported("dryRun", [dry_run], ("All",)))
    manager = query.get("fieldManager", "")
    errors += validate_field_manager(manager)
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if kind == "PatchOptions" and "force" in query and not applies:
        errors.insert(0, forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise Invalid.of(GroupKind(META, kind), "", errors)
    force = applies and is_true(query, "force")
    return WriteOptions(dry_run == "All", manager, validation or "Warn", force, kind, validation)


def apply_options(query: Mapping[str, str]) -> WriteOptions:
    """Decode and validate the options of a server-side apply."""
    return write_options(query, "PatchOptions", applies=True)
