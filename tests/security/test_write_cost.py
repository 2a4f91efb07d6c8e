"""The CPU that a write takes grows no faster than its object, and an object that is too large costs little."""

import gc
import time

import pytest

from api_client import APPLY, CM, JSON_PATCH, MERGE, cm, deployment, served
from api_client import DEPLOY as DEPLOYMENTS
from kapi.api.limits import OBJECT_BYTES
from kapi.api.ownership import managedfields
from kapi.registry import write as writepath

GROWTH = 8.0
"""Four times the input may take at most so many times the CPU: n log n takes a little over four, a square sixteen."""

TOO_LARGE = (413, "RequestEntityTooLarge", f"Request entity too large: limit is {OBJECT_BYTES}")


def owners(count):
    return [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"uid-{number}"} for number in range(count)]


def controllers(count):
    return [{**owner, "controller": True} for owner in owners(count)]


def repeated_owners(count):
    return owners(count // 2) * 2


def finalizers(count):
    return [f"example.com/finalizer-{number}" for number in range(count)]


def managers(count):
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z"}
    return [{**entry, "manager": f"m{i}", "fieldsV1": {"f:data": {f"f:key-{i}": {}}}} for i in range(count)]


METADATA = {
    "distinct owners": ("ownerReferences", owners),
    "repeated owners": ("ownerReferences", repeated_owners),
    "owners that are all the controller": ("ownerReferences", controllers),
    "finalizers": ("finalizers", finalizers),
    "field managers": ("managedFields", managers),
    "labels": ("labels", lambda count: {f"label-{number}": "x" for number in range(count)}),
    "annotations": ("annotations", lambda count: {f"example.com/{number}": "x" for number in range(count)}),
}


async def cpu(send):
    """The CPU of one request, the least of three so that other work on the machine does not count."""
    taken = []
    gc.disable()  # its passes grow with all objects of the process, not with those of the request
    try:
        for _ in range(3):
            start = time.process_time()
            await send()
            taken.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(taken)


@pytest.mark.parametrize(("field", "make"), METADATA.values(), ids=METADATA)
@served
async def test_cpu_of_a_create_and_an_update_grows_no_faster_than_the_metadata(api, field, make):
    await api.made(CM, cm("stored"))

    async def measured(count):
        # A dry run does all of the work and leaves nothing behind.
        obj = cm("new", metadata={field: make(count)}, data={f"key-{number}": "" for number in range(count)})
        changed = cm("stored", metadata={field: make(count)}, data=obj["data"])
        return (
            await cpu(lambda: api.post(CM, obj, dryRun="All")),
            await cpu(lambda: api.put(f"{CM}/stored", changed, dryRun="All")),
        )

    few = lots = (float("inf"), float("inf"))
    # The least of several measurements, some of which may be made while the machine is busy.
    for _ in range(4):
        few = tuple(map(min, few, await measured(1000)))
        lots = tuple(map(min, lots, await measured(4000)))
        if all(four < one * GROWTH for one, four in zip(few, lots, strict=True)):
            return
    raise AssertionError((few, lots))


def test_cpu_of_merging_the_oldest_field_managers_grows_no_faster_than_their_number():
    def cpu_of_one(count):
        claims = managedfields.decode(managers(count))
        start = time.process_time()
        merged = managedfields.capped(claims)
        taken = time.process_time() - start
        assert sum(len(claim.fields["f:data"]) for claim in merged.values()) == count
        return taken

    # The least of several: one may be taken while the machine does other things.
    few, lots = (min(cpu_of_one(count) for _ in range(5)) for count in (1000, 4000))
    assert lots < few * GROWTH, (few, lots)


# -- objects that are too large ---------------------------------------------------------------------------------------


@pytest.fixture
def steps(monkeypatch):
    """The steps of the write path that were run after the wanted state was known."""
    seen = []
    for name in ("_drop_duplicate_owners", "_check_after_admission", "create_errors", "update_errors"):
        original = getattr(writepath, name)

        def recorded(*arguments, _name=name, _original=original):
            seen.append(_name)
            return _original(*arguments)

        monkeypatch.setattr(writepath, name, recorded)
    return seen


@served
async def test_a_body_that_is_too_large_is_refused_before_any_other_step(api, steps):
    large = deployment("large")
    large["metadata"]["ownerReferences"] = owners(24_000)
    large["spec"]["template"]["metadata"]["annotations"] = {"a": "x" * 200_000}
    steps.clear()
    assert (await api.post(DEPLOYMENTS, large)).error == TOO_LARGE
    assert steps == []
    assert (await api.post(DEPLOYMENTS, deployment("large"))).status == 201
    steps.clear()
    assert (await api.put(f"{DEPLOYMENTS}/large", large)).error == TOO_LARGE
    assert steps == []


@served
async def test_a_patch_whose_result_is_too_large_is_refused_before_any_other_step(api, steps):
    value = "x" * (OBJECT_BYTES // 4)
    await api.made(DEPLOYMENTS, deployment("d"))
    template = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i", "env": []}]}}}}
    env = template["spec"]["template"]["spec"]["containers"][0]["env"]
    env += [{"name": f"E{number}", "value": value} for number in range(5)]
    copies = [{"op": "add", "path": "/spec/template/metadata/annotations", "value": {"a": value}}]
    copies += [
        {"op": "copy", "from": "/spec/template/metadata/annotations/a", "path": f"/metadata/annotations/b{number}"}
        for number in range(4)
    ]
    copies.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
    steps.clear()
    assert (await api.patch(f"{DEPLOYMENTS}/d", template, MERGE)).error == TOO_LARGE
    annotated = await api.patch(f"{DEPLOYMENTS}/d", copies, JSON_PATCH)
    assert annotated.error[:2] == (422, "Invalid")
    assert annotated.message.endswith("is invalid: metadata.annotations: Too long: may not be more than 262144 bytes")
    wanted = {**template, "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    assert (await api.patch(f"{DEPLOYMENTS}/d", wanted, APPLY, fieldManager="m", force="true")).error == TOO_LARGE
    assert steps == []


@served
async def test_an_object_that_admission_makes_too_large_is_refused_before_it_is_checked_again(api, steps):
    class Growing:
        def handles(self, operation, _resource, _subresource):
            return operation == "CREATE"

        async def mutate(self, write, obj, old):
            obj["metadata"]["finalizers"] = [f"example.com/{'x' * 1000}"] * 2000

    api.services.admission = type(api.services.admission)({"Growing": Growing()})
    steps.clear()
    assert (await api.post(DEPLOYMENTS, deployment("d"))).error == TOO_LARGE
    # It is measured first: the owners are looked at before admission only.
    assert steps == ["_drop_duplicate_owners", "_check_after_admission"]


@served
async def test_a_kind_with_a_limit_of_its_own_answers_with_that_limit(api):
    data = {"key": "x" * (OBJECT_BYTES + 1)}
    message = "is invalid: []: Too long: may not be more than 1048576 bytes"
    assert (await api.post(CM, cm("large", data=data))).message == f'ConfigMap "large" {message}'
    secret = {"metadata": {"name": "large"}, "stringData": data}
    answer = await api.post(CM.replace("configmaps", "secrets"), secret)
    assert answer.message == 'Secret "large" is invalid: data: Too long: may not be more than 1048576 bytes'


@served
async def test_a_status_that_the_server_drops_does_not_count(api):
    obj = {
        **deployment("d"),
        "status": {"conditions": [{"type": "A", "status": "True", "message": "x" * OBJECT_BYTES}]},
    }
    assert (await api.post(DEPLOYMENTS, obj)).status == 201
    assert (await api.put(f"{DEPLOYMENTS}/d", obj)).status == 200
    assert (await api.put(f"{DEPLOYMENTS}/d/status", obj)).error == TOO_LARGE
