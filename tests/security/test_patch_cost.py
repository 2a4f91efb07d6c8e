"""The CPU of patches, of server-side apply and of field ownership grows no faster than the object and the patch.

Every list and map field of every built-in kind is patched in each way, with entries that are there already, with new ones
and with repeated ones. An ordinary run tests every thirtieth field, and lists of every way to merge; `KAPI_EVERY_FIELD=1`
tests all of them.
"""

import contextlib
import datetime as dt
import gc
import os
import time

import pytest
from schema_fields import ONCE, copied, filled

from kapi.api.errors import ApiError
from kapi.api.jsonpath.path import JSONPathError, compile_path
from kapi.api.ownership.managedfields import FieldManager
from kapi.api.patch import jsonpatch, mergepatch, strategicmerge

COUNTS = (500, 2000)
LEAST = 0.02
"""Seconds of CPU below which growth cannot be told from noise."""

GROWTH = 9.0
"""Four times the entries may take at most so many times the CPU: n log n takes a little over four, a square sixteen."""

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
ALWAYS = {
    ("Container", "env"),  # merged by one key
    ("Container", "ports"),  # by several
    ("Container", "args"),  # replaced
    ("ServiceAccount", "secrets"),
    ("ServiceSpec", "ports"),
    ("Secret", "data"),
    ("PodSpec", "tolerations"),
}


def is_tested(index, field):
    known = (field.struct.rpartition(".")[2], *field.names) in ALWAYS
    return bool(os.environ.get("KAPI_EVERY_FIELD")) or index % 30 == 0 or known


FIELDS = [field for index, field in enumerate(ONCE) if is_tested(index, field)]


def part(field, obj):
    """The field of an object that has many entries, alone in an object of the kind."""
    root = field.path[0] if field.path else field.names[0]
    return {root: obj[root]}


def shifted(field, count):
    """An object of which half of the entries are those of `filled`."""
    more, obj = filled(field, count * 3 // 2, distinct=True), filled(field, count, distinct=True)
    source, target = more, obj
    for step in field.path:
        source, target = source[step], target[step]
        if isinstance(source, list):
            source, target = source[0], target[0]
        elif step != field.path[-1] and "x0" in source:
            source, target = source["x0"], target["x0"]
    for name in field.names:
        if isinstance(source.get(name), list):
            target[name] = source[name][count // 2 :]
    return obj


# -- the ways to change an object -------------------------------------------------------------------------------------


def merge_patch(field, live, wanted):
    return lambda: mergepatch.merge(live, part(field, wanted))


def strategic_patch(field, live, wanted):
    patch, merge = part(field, wanted), field.resource.schema.merge

    def work():
        with contextlib.suppress(mergepatch.PatchError):
            strategicmerge.apply(live, patch, merge)

    return work


def json_patch(field, live, wanted):
    operations = [{"op": "replace", "path": f"/{key}", "value": value} for key, value in part(field, wanted).items()]
    decoded = jsonpatch.decode_operations(operations)
    return lambda: jsonpatch.apply(live, decoded)


def managed(field):
    return FieldManager(field.resource.schema.shape, field.resource.gvk)


def update_ownership(field, live, wanted):
    manager = managed(field)
    manager.update(None, live, manager="a", now=NOW)
    before = copied(wanted)

    def work():
        manager.update(live, copied(before), manager="b", now=NOW)

    return work


def apply(field, live, wanted):
    manager = managed(field)
    manager.update(None, live, manager="a", now=NOW)

    def work():
        # A conflict is as good as a success, and so is an item that cannot be told from another.
        with contextlib.suppress(ApiError):
            done = manager.apply(live, copied(wanted), manager="b", force=True, now=NOW)
            manager.apply(done, copied(live), manager="c", now=NOW)

    return work


WAYS = {way.__name__: way for way in (merge_patch, strategic_patch, json_patch, update_ownership, apply)}
CONTENTS = {
    "the same entries": lambda field, count: filled(field, count, distinct=True),
    "other entries": shifted,
    "repeated entries": lambda field, count: filled(field, count, distinct=False),
}


def cpu(work, times):
    taken = []
    gc.disable()  # its passes grow with all objects of the process, not with those of the patch
    try:
        for _ in range(times):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(taken)


def check_growth(few, lots):
    """Fail if four times the input takes more than `GROWTH` times the CPU, in each of three measurements.

    One may be taken while the machine does other things; a cost that grows faster shows in all of them.
    """
    measured = []
    for _ in range(3):
        one, four = cpu(few, 5), cpu(lots, 5)
        if four < max(one * GROWTH, LEAST):
            return
        measured.append((one, four))
    pytest.fail(f"the CPU grows faster than the input: {measured}")


def objects(field, content, count):
    """The stored and the wanted object."""
    both = filled(field, count, distinct=True), content(field, count)
    for one in both:
        one["apiVersion"], one["kind"] = field.resource.api_version, field.resource.kind
    return both


def growth(field, content):
    """The CPU for each count of the ways in which it grows too fast."""
    found = {}
    live, wanted = objects(field, content, COUNTS[-1])
    for name, way in WAYS.items():
        lots = way(field, copied(live), copied(wanted))
        if cpu(lots, 1) < LEAST or cpu(lots, 3) < LEAST:
            continue
        few = way(field, *objects(field, content, COUNTS[0]))
        one, four = cpu(few, 5), cpu(lots, 5)
        if four > one * GROWTH:
            found[name] = (one, four)
    return found


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_cpu_of_a_change_grows_no_faster_than_the_lists_and_maps_of_a_struct(content):
    bad = {str(field): found for field in FIELDS if (found := growth(field, content))}
    assert bad == {}


# -- JSON patches by operation ----------------------------------------------------------------------------------------

OPERATIONS = {
    "add at the end": lambda n: [{"op": "add", "path": "/spec/a/-", "value": 1} for _ in range(n)],
    "add in front": lambda n: [{"op": "add", "path": "/spec/a/0", "value": 1} for _ in range(n)],
    "add keys": lambda n: [{"op": "add", "path": f"/spec/m/x{number}", "value": {}} for number in range(n)],
    "remove the last": lambda n: [{"op": "remove", "path": "/spec/a/-1"} for _ in range(n)],
    "remove the first": lambda n: [{"op": "remove", "path": "/spec/a/0"} for _ in range(n)],
    "replace": lambda n: [{"op": "replace", "path": f"/spec/a/{number}", "value": {}} for number in range(n)],
    "move": lambda n: [{"op": "move", "from": "/spec/a/0", "path": "/spec/a/-"} for _ in range(n)],
    "move all": lambda n: [
        {"op": "move", "from": way[0], "path": way[1]}
        for _ in range(n // 2)
        for way in (("/spec/a", "/spec/b"), ("/spec/b", "/spec/a"))
    ],
    "copy": lambda n: [{"op": "copy", "from": "/spec/m/k0", "path": f"/spec/m/x{number}"} for number in range(n)],
    "test": lambda n: [{"op": "test", "path": f"/spec/a/{number}", "value": number} for number in range(n)],
    "test all": lambda n: [{"op": "test", "path": "/spec/a", "value": list(range(n))}],
}


@pytest.mark.parametrize("operations", OPERATIONS.values(), ids=OPERATIONS)
def test_cpu_of_a_json_patch_grows_no_faster_than_its_operations(operations):
    def work(count):
        doc = {"spec": {"a": list(range(count)), "m": {f"k{number}": "v" for number in range(count)}}}
        decoded = jsonpatch.decode_operations(operations(count))
        return lambda: jsonpatch.apply(doc, decoded)

    few, lots = work(1000), work(4000)
    check_growth(few, lots)


# -- columns ----------------------------------------------------------------------------------------------------------

PATHS = (
    ".a[*].x",
    ".a[0,1,2].x",
    "..x",
    ".a[?(@.x==5)].x",
    ".a[?(@.x)].x",
    ".a[*]['x','y']",
    ".a[::2].x",
    ".a[*]..x",
    ".a[?(@.x in 5)]",
)


@pytest.mark.parametrize("text", PATHS)
def test_cpu_of_a_column_grows_no_faster_than_its_object(text):
    def work(count):
        obj, path = {"a": [{"x": number, "y": {"x": 1}} for number in range(count)]}, compile_path(text)

        def find():
            with contextlib.suppress(JSONPathError):
                path.find(obj)

        return find

    with contextlib.suppress(JSONPathError):
        few, lots = work(1000), work(4000)
        check_growth(few, lots)
