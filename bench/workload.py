"""The requests of the load: an endless iterator for each kind of request and each connection."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.definitions import SMALL, large_collection, large_object, small_collection, small_object
from bench.objects import (
    POLICY_NAMESPACE,
    QUOTA_NAMESPACE,
    WEBHOOK_NAMESPACE,
    ZERO_STAMP,
    collection,
    config_map,
    pod,
    request,
    seeded,
    sized_config_map,
    stamp,
    typical_pod,
)
from bench.population import grouped_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Job = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Sort:
    """A kind of object in the load: its constructor by name, and its path."""

    make: Callable[[str], bytes]
    path: Callable[[], str]
    change: Callable[[str, str], bytes] = config_map
    """The object of a name with a stamp in it."""


_SORTS = {
    "configmaps": Sort(config_map, collection),
    "limited": Sort(config_map, partial(collection, QUOTA_NAMESPACE)),
    "guarded": Sort(config_map, partial(collection, POLICY_NAMESPACE)),
    "hooked": Sort(config_map, partial(collection, WEBHOOK_NAMESPACE)),
    "pods": Sort(pod, partial(collection, resource="pods")),
    "typical": Sort(typical_pod, partial(collection, resource="pods")),
    "small": Sort(partial(small_object, SMALL, 0), partial(small_collection, SMALL, 0)),
    "large": Sort(large_object, large_collection),
    "scaled": Sort(grouped_pod, partial(collection, resource="pods")),
}
_VALUES = "values."
"""A sort of this prefix is a ConfigMap of so many bytes."""


def sort_of(job: Job) -> Sort:
    """Return the kind of object of a job; ConfigMaps by default."""
    of: str = job.get("of", "configmaps")
    if of.startswith(_VALUES):
        make = partial(sized_config_map, int(of.removeprefix(_VALUES)))
        return Sort(make, collection, make)
    return _SORTS[of]


def creates(job: Job, index: int) -> Iterator[bytes]:
    """New objects, under names no other connection or round uses."""
    sort = sort_of(job)
    path = sort.path()
    for number in itertools.count():
        yield request("POST", path, sort.make(f"{job['run']}-{index}-{number}"))


def gets(job: Job, index: int) -> Iterator[bytes]:
    """Seeded objects in random order."""
    numbers = random.Random(index).sample(range(job["keys"]), min(1000, job["keys"]))
    path = sort_of(job).path()
    return itertools.cycle([request("GET", f"{path}/{seeded(number)}") for number in numbers])


def _own(job: Job, index: int) -> Iterator[str]:
    """Seeded objects that belong to one connection alone, so that writers do not meet."""
    return itertools.cycle([seeded(number) for number in range(index, job["keys"], job["connections"])])


def updates(job: Job, index: int) -> Iterator[bytes]:
    """Whole objects with a new stamp."""
    for name in _own(job, index):
        yield request("PUT", f"{collection()}/{name}", config_map(name, stamp()))


def replaces(job: Job, index: int) -> Iterator[bytes]:
    """Whole objects of any sort with a new stamp."""
    sort = sort_of(job)
    path = sort.path()
    for name in _own(job, index):
        yield request("PUT", f"{path}/{name}", sort.change(name, stamp()))


def annotates(job: Job, index: int) -> Iterator[bytes]:
    """Merge patches of an annotation, of any sort."""
    path = sort_of(job).path()
    for name in _own(job, index):
        body = b'{"metadata":{"annotations":{"stamp":"%b"}}}' % stamp().encode()
        yield request("PATCH", f"{path}/{name}", body, MERGE_PATCH)


def patches(job: Job, index: int) -> Iterator[bytes]:
    """Merge patches of one field."""
    for name in _own(job, index):
        yield request("PATCH", f"{collection()}/{name}", b'{"data":{"stamp":"%b"}}' % stamp().encode(), MERGE_PATCH)


def _applied(name: str, value: str = ZERO_STAMP) -> bytes:
    query = "fieldManager=bench&force=true"
    return request("PATCH", f"{collection()}/{name}?{query}", config_map(name, value), APPLY_PATCH)


def applies_new(job: Job, index: int) -> Iterator[bytes]:
    """Objects created by server-side apply."""
    for number in itertools.count():
        yield _applied(f"{job['run']}-apply-{index}-{number}")


def applies_same(job: Job, index: int) -> Iterator[bytes]:
    """The same configuration again and again: the first time it is taken over, from then on nothing changes."""
    for name in _own(job, index):
        yield _applied(name)


def applies_field(job: Job, index: int) -> Iterator[bytes]:
    """A configuration with one field changed."""
    for name in _own(job, index):
        yield _applied(name, stamp())


def paths(job: Job, index: int) -> Iterator[bytes]:
    """GETs of one path."""
    return itertools.repeat(request("GET", job["path"]))


KINDS = {
    "path": paths,
    "create": creates,
    "get": gets,
    "update": updates,
    "replace": replaces,
    "annotate": annotates,
    "patch": patches,
    "apply.new": applies_new,
    "apply.same": applies_same,
    "apply.field": applies_field,
}
