from __future__ import annotations

from kind_support import assert_idempotent, created, thing, update_errors

from kapi.registry.kinds.resource import GROUP, STRATEGIES

CLAIM, TEMPLATE, SLICE = (
    STRATEGIES[GROUP, kind] for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
)


def _spec(name="gpu"):
    requests = [
        {"name": "a", "exactly": {"deviceClassName": name}},
        {
            "name": "b",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "gpu"},
                {"name": "y", "deviceClassName": "gpu", "allocationMode": "All"},
            ],
        },
    ]
    return {"devices": {"requests": requests}}


def test_requests_ask_for_one_device():
    obj, _ = created(CLAIM, thing(spec=_spec()))
    first, second = obj["spec"]["devices"]["requests"]
    assert first["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert second["firstAvailable"] == [
        {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
        {"name": "y", "deviceClassName": "gpu", "allocationMode": "All"},
    ]
    assert_idempotent(CLAIM, thing(spec=_spec()))
    template, _ = created(TEMPLATE, thing(spec={"spec": _spec()}))
    assert template["spec"]["spec"] == obj["spec"]


def test_claims_and_templates_are_immutable():
    old, _ = created(CLAIM, thing(spec=_spec()))
    assert update_errors(CLAIM, thing(spec=_spec()), old) == []
    (error,) = update_errors(CLAIM, thing(spec=_spec("tpu")), old)
    assert error.startswith("spec: Invalid value: {")
    assert error.endswith(": field is immutable")
    old, _ = created(TEMPLATE, thing(spec={"spec": _spec()}))
    assert len(update_errors(TEMPLATE, thing(spec={"spec": _spec("tpu")}), old)) == 1


def test_slice_driver_and_pool_are_immutable():
    old = thing(spec={"driver": "d", "nodeName": "n", "pool": {"name": "p"}})
    wanted = thing(spec={"driver": "e", "nodeName": "n", "pool": {"name": "q"}})
    assert update_errors(SLICE, wanted, old) == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "e": field is immutable',
    ]
    assert SLICE.selectable(old) == {"spec.nodeName": "n", "spec.driver": "d"}
