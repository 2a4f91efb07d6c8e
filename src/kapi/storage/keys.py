"""The keys of objects: `/registry/<group|core>/<resource>/[<namespace>/]<name>`.

Keys are the wall between kinds and between namespaces: a list reads one prefix, so a segment that could climb out of
its prefix would read the objects of others. That has happened elsewhere (CVE-2015-5305: `..` in a name;
CVE-2022-3162: a prefix without its closing slash). Hence every segment is checked here, whatever was checked before,
and every prefix ends with `/`. Pure functions; no I/O.

Besides objects there are reservations: records that make a value unique across objects, committed together with the
object that takes the value, so that of two servers one is refused. No API serves them. They lie at
`/registry/reservations/<what>/<name>`; no API group can have that name, for a group that is not built in has a dot.
`registry/reservations.py` has the list of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ROOT = "/registry/"
"""The prefix of every object."""

CORE = "core"
"""How the legacy group, whose name is empty, is spelled in keys."""

RESERVATIONS = "reservations"
"""What stands in place of a group in the keys of reservations."""

# One pattern for all segments: not a slash (path), not a percent sign (it may be unquoted once more), no control
# character, no lone surrogate (cannot be written as UTF-8).
_SEGMENT = re.compile("[^/%\\x00-\\x1f\\x7f\\ud800-\\udfff]+")
_LAST_CHARACTER = 0x10FFFF
LONGEST_NAMESPACE = 63
"""The most characters that the name of a namespace has."""


class InvalidKey(ValueError):
    """A segment or a key that must not reach the store."""


class Location(NamedTuple):
    """The parts of a key. `group` is empty for the core group, `namespace` for cluster-scoped objects."""

    group: str
    resource: str
    namespace: str
    name: str


def _segment(what: str, text: str) -> str:
    if text in {".", ".."} or _SEGMENT.fullmatch(text) is None:
        raise InvalidKey(
            f"{what} {text!r} cannot be part of a storage key: it must be non-empty, not . or .., and hold no / or %"
        )
    return text


def _group(group: str) -> str:
    if group == CORE:
        # Two spellings of one group would be two places for one object.
        raise InvalidKey(f"group {group!r} is written as the empty string")
    return _segment("group", group) if group else CORE


def resource_prefix(group: str, resource: str, namespace: str = "") -> str:
    """The prefix of all objects of a resource, or of those in one namespace. Always ends with `/`."""
    if not namespace:
        return _prefix(group, resource)
    # There is none of a longer name, and who asks for many of them is not to fill the cache with their names.
    is_possible = len(namespace) <= LONGEST_NAMESPACE
    return (_cached_namespace_prefix if is_possible else _namespace_prefix)(group, resource, namespace)


# Every read and write of an object needs them; groups and resources are those that are served.
@lru_cache(maxsize=4096)
def _prefix(group: str, resource: str) -> str:
    return f"{ROOT}{_group(group)}/{_segment('resource', resource)}/"


def _namespace_prefix(group: str, resource: str, namespace: str) -> str:
    return f"{_prefix(group, resource)}{_segment('namespace', namespace)}/"


_cached_namespace_prefix = lru_cache(maxsize=4096)(_namespace_prefix)


def object_key(group: str, resource: str, namespace: str, name: str) -> str:
    """The key of one object; `namespace` is empty for cluster-scoped ones."""
    return resource_prefix(group, resource, namespace) + _segment("name", name)


def reservation_prefix(what: str) -> str:
    """The prefix of all reservations of a kind."""
    return f"{ROOT}{RESERVATIONS}/{_segment('kind of reservation', what)}/"


def reservation_key(what: str, name: str) -> str:
    """The key of a reservation."""
    return reservation_prefix(what) + _segment("name", name)


def parse_key(key: str) -> Location:
    """The inverse of `object_key`; refuses what `object_key` would not have made."""
    if not key.startswith(ROOT):
        raise InvalidKey(f"{key!r} does not begin with {ROOT}")
    group, *rest = key[len(ROOT) :].split("/")
    if len(rest) not in {2, 3}:
        raise InvalidKey(f"{key!r} is not {ROOT}<group>/<resource>/[<namespace>/]<name>")
    resource, *namespace, name = rest
    location = Location("" if group == CORE else group, resource, namespace[0] if namespace else "", name)
    if object_key(*location) != key:
        raise InvalidKey(f"{key!r} has an empty segment")
    return location


def prefix_end(prefix: str) -> str | None:
    """The smallest string above every string that begins with `prefix`; None when there is none.

    Strings are ordered by code point, which is also the order of their UTF-8 bytes, so it holds in Python and in a
    database alike.
    """
    while prefix and ord(prefix[-1]) == _LAST_CHARACTER:
        prefix = prefix[:-1]
    if not prefix:
        return None
    following = ord(prefix[-1]) + 1
    # The surrogates D800 to DFFF are not characters; the next one that can be stored is E000.
    return prefix[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)
