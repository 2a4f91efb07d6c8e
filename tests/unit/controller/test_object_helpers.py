"""Owner references, finalizers and conditions, on dictionaries and on typed objects alike."""

import datetime as dt

import msgspec
import pytest

from kapi import CustomResource, Model, resource
from kapi.api.builtin import apps_v1, core_v1, meta_v1
from kapi.base.clock import ManualClock
from kapi.controller.objects.conditions import find_condition, is_true, remove_condition, set_condition
from kapi.controller.objects.finalizer import add_finalizer, discard_finalizer, has_finalizer
from kapi.controller.objects.ownership import (
    AlreadyOwnedError,
    is_controlled_by,
    is_owned_by,
    remove_owner_reference,
    set_controller_reference,
    set_owner_reference,
)


def as_dict(name, namespace="ns", uid=""):
    metadata = {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {key: value for key, value in metadata.items() if value},
    }


def as_class(name, namespace="ns", uid=""):
    metadata = meta_v1.ObjectMeta(name=name, namespace=namespace or None, uid=uid or None)
    return core_v1.ConfigMap(metadata=metadata)


FORMS = pytest.mark.parametrize("make", [as_dict, as_class], ids=["dictionary", "class"])
OWNERS = pytest.mark.parametrize(
    "owner", [as_dict("o", uid="u1"), as_class("o", uid="u1")], ids=["by dict", "by class"]
)


def wire(obj):
    """The references as they are sent."""
    return msgspec.to_builtins(obj)["metadata"].get("ownerReferences")


@FORMS
@OWNERS
def test_a_controller_reference_says_whom_the_object_belongs_to(make, owner):
    obj = make("a")
    set_controller_reference(owner, obj)
    assert wire(obj) == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "o",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert is_controlled_by(obj, owner)
    assert is_owned_by(obj, owner)


@FORMS
def test_a_second_controller_is_refused_and_nothing_changes(make):
    obj = make("a")
    set_controller_reference(as_dict("o", uid="u1"), obj)
    before = wire(obj)
    with pytest.raises(AlreadyOwnedError, match="already controlled by ConfigMap o"):
        set_controller_reference(as_dict("p", uid="u2"), obj)
    assert wire(obj) == before


@FORMS
def test_setting_the_same_owner_again_renews_its_entry(make):
    obj = make("a")
    set_owner_reference(as_dict("o", uid="u1"), obj)
    set_owner_reference(as_dict("p", uid="u2"), obj)
    set_controller_reference(as_dict("o", uid="u1"), obj)
    assert [one["uid"] for one in wire(obj)] == ["u1", "u2"]
    assert wire(obj)[0]["controller"] is True
    assert remove_owner_reference(as_dict("o", uid="u1"), obj) is True
    assert remove_owner_reference(as_dict("o", uid="u1"), obj) is False
    assert remove_owner_reference(as_dict("p", uid="u2"), obj) is True
    assert wire(obj) is None


@FORMS
@pytest.mark.parametrize(
    ("owner", "namespace", "said"),
    [
        (as_dict("o", "other", "u1"), "ns", "cannot be owned by o in other"),
        (as_dict("o", "ns", "u1"), "", "has no namespace"),
        (as_dict("o", "ns"), "ns", "has no uid"),
    ],
    ids=["another namespace", "cluster-scoped", "never stored"],
)
def test_owners_the_collector_could_not_find_are_refused(make, owner, namespace, said):
    obj = make("a", namespace)
    with pytest.raises(ValueError, match=said):
        set_controller_reference(owner, obj)
    assert wire(obj) is None


@FORMS
def test_a_cluster_scoped_owner_may_own_anything(make):
    obj = make("a")
    set_owner_reference(as_dict("o", "", "u1"), obj)
    assert is_owned_by(obj, as_dict("o", "", "u1"))


@FORMS
def test_finalizers_are_added_once_and_removed_once(make):
    obj = make("a")
    assert add_finalizer(obj, "example.com/x") is True
    assert add_finalizer(obj, "example.com/x") is False
    assert add_finalizer(obj, "example.com/y") is True
    assert has_finalizer(obj, "example.com/x")
    assert msgspec.to_builtins(obj)["metadata"]["finalizers"] == ["example.com/x", "example.com/y"]
    assert discard_finalizer(obj, "example.com/x") is True
    assert discard_finalizer(obj, "example.com/x") is False
    assert discard_finalizer(obj, "example.com/y") is True
    assert "finalizers" not in msgspec.to_builtins(obj)["metadata"]


def test_an_object_without_metadata_can_be_given_a_finalizer():
    obj = core_v1.ConfigMap()
    assert add_finalizer(obj, "example.com/x")
    assert obj.metadata.finalizers == ["example.com/x"]


TIMES = [
    [{"type": "Other", "status": "True"}],
    [
        meta_v1.Condition(
            type="Other", status="True", reason="R", message="", last_transition_time="2026-01-01T00:00:00Z"
        )
    ],
]


@pytest.mark.parametrize("start", TIMES, ids=["dictionaries", "classes"])
def test_the_time_of_a_condition_moves_when_its_status_does(start):
    clock, conditions = ManualClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), list(start)

    def shown():
        return msgspec.to_builtins(find_condition(conditions, "Ready"))

    assert set_condition(conditions, "Ready", False, reason="Starting", clock=clock)
    assert shown()["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    clock.advance(60)
    assert set_condition(
        conditions, "Ready", False, reason="Waiting", message="for it", observed_generation=2, clock=clock
    )
    assert shown()["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert (shown()["reason"], shown()["message"], shown()["observedGeneration"]) == ("Waiting", "for it", 2)
    assert not set_condition(
        conditions, "Ready", False, reason="Waiting", message="for it", observed_generation=2, clock=clock
    )
    assert set_condition(conditions, "Ready", True, reason="Done", clock=clock)
    assert shown()["lastTransitionTime"] == "2026-01-01T00:01:00Z"
    assert is_true(conditions, "Ready")
    assert remove_condition(conditions, "Ready") is True
    assert remove_condition(conditions, "Ready") is False
    assert not is_true(conditions, "Ready")


class Reason(Model):
    """A class of conditions of an operator's own."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: str = ""


class LampStatus(Model):
    conditions: list[Reason] = msgspec.field(default_factory=list)


@resource("helpers.example.com/v1")
class Lamp(CustomResource, kw_only=True):
    status: LampStatus | None = None


def test_a_condition_in_an_empty_list_is_an_instance_of_a_class():
    conditions = []
    assert set_condition(conditions, "Ready", True, reason="Done")
    assert isinstance(conditions[0], meta_v1.Condition)
    assert set_condition(other := [], "Ready", True, reason="Done", cls=dict)
    assert other[0]["status"] == "True"


def test_a_condition_of_an_object_is_of_the_class_that_the_objects_class_says():
    lamp = Lamp()
    assert set_condition(lamp, "Ready", True, reason="Done", observed_generation=3)
    assert not set_condition(lamp, "Ready", True, reason="Done", observed_generation=3)
    assert isinstance(lamp.status.conditions[0], Reason)
    assert is_true(lamp.status.conditions, "Ready")
    deployment = apps_v1.Deployment()
    assert set_condition(deployment, "Available", True, reason="Done", cls=meta_v1.Condition)
    assert deployment.status.conditions[0].type == "Available"


def test_a_condition_of_a_dictionary_is_a_dictionary():
    obj = {"metadata": {"name": "a"}}
    assert set_condition(obj, "Ready", False, reason="Starting")
    assert obj["status"]["conditions"][0]["status"] == "False"


def test_an_object_of_a_class_without_conditions_is_refused():
    with pytest.raises(TypeError, match="ConfigMap has no field status, so it has no conditions"):
        set_condition(core_v1.ConfigMap(), "Ready", True, reason="Done")
