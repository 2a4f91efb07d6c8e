"""What is sent of a typed object: what the program set, and nothing that it did not touch is lost."""

import asyncio
import copy
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi import Client, CustomResource, Model, ObjectMeta, definition, resource
from kapi.api.builtin.core_v1 import Container, Pod, PodSpec
from kapi.api.errors import Conflict
from kapi.client.documents import encode, encode_patch
from kapi.client.errors import LossyUpdate
from kapi.client.typed import class_decoder


class Port(Model):
    number: int = 80
    is_open: bool = True


class GadgetSpec(Model):
    size: int = 1
    on: bool = False
    label: str = "none"
    note: str | None = None
    ports: list[Port] = msgspec.field(default_factory=list)
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    main: Port = msgspec.field(default_factory=Port)


@resource("documents.example.com/v1")
class Gadget(CustomResource, kw_only=True):
    spec: GadgetSpec = msgspec.field(default_factory=GadgetSpec)


HEAD = {"apiVersion": "documents.example.com/v1", "kind": "Gadget"}


def sent(obj):
    return json.loads(encode(obj))


def spec_of(obj):
    return sent(obj).get("spec")


def read(spec, **more):
    return class_decoder(Gadget)(json.dumps({**HEAD, "metadata": {"name": "a"}, "spec": spec, **more}).encode())


# -- objects that the program makes -----------------------------------------------------------------------------------


def test_a_field_that_was_set_is_sent_though_it_has_its_default():
    assert spec_of(Gadget(spec=GadgetSpec(size=1, on=False))) == {"size": 1, "on": False}


def test_a_field_that_was_not_set_is_not_sent():
    assert sent(Gadget()) == HEAD
    assert spec_of(Gadget(spec=GadgetSpec(size=3))) == {"size": 3}
    assert spec_of(Gadget(spec=GadgetSpec())) == {}


def test_a_field_that_is_assigned_later_was_set():
    gadget = Gadget()
    gadget.spec.on = False
    gadget.spec.main.is_open = True
    assert spec_of(gadget) == {"on": False, "main": {"isOpen": True}}


def test_lists_and_maps_that_were_filled_later_are_sent():
    gadget = Gadget()
    gadget.spec.ports.append(Port(number=80))
    gadget.spec.limits["cpu"] = 1
    assert spec_of(gadget) == {"ports": [{"number": 80}], "limits": {"cpu": 1}}


def test_an_empty_list_that_was_set_is_sent():
    assert spec_of(Gadget(spec=GadgetSpec(ports=[], limits={}))) == {"ports": [], "limits": {}}


def test_none_is_not_sent():
    assert spec_of(Gadget(spec=GadgetSpec(note=None))) == {}


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_has_the_fields_set_that_the_object_has(duplicate):
    spec = duplicate(GadgetSpec(on=False))
    assert spec_of(Gadget(spec=spec)) == {"on": False}
    spec.size = 1
    assert spec_of(Gadget(spec=spec)) == {"on": False, "size": 1}


def test_a_deep_copy_shares_nothing():
    gadget = Gadget(spec=GadgetSpec(ports=[Port(number=1)]))
    other = copy.deepcopy(gadget)
    other.spec.ports[0].number = 2
    assert gadget.spec.ports[0].number == 1
    assert other != gadget


def test_equality_and_repr_are_those_of_the_fields():
    assert GadgetSpec(size=1) == GadgetSpec()
    assert repr(Port(number=80)) == "Port()"


def test_instances_in_a_patch_are_sent_as_they_were_set():
    assert json.loads(encode_patch({"spec": GadgetSpec(on=False)})) == {"spec": {"on": False}}
    operation = [{"op": "replace", "path": "/spec", "value": GadgetSpec(size=1)}]
    assert json.loads(encode_patch(operation))[0]["value"] == {"size": 1}


# -- objects that were read -------------------------------------------------------------------------------------------


def test_an_object_that_was_not_changed_is_sent_as_it_was_read():
    document = {"size": 1, "ports": [{"number": 80, "novelty": 1}], "novelty": {"a": [1, None]}}
    assert sent(read(document, status={"novelty": 2})) == {
        **HEAD,
        "metadata": {"name": "a"},
        "spec": document,
        "status": {"novelty": 2},
    }


def test_a_change_leaves_fields_that_the_class_does_not_have():
    gadget = read({"size": 3, "novelty": {"deep": True}, "main": {"number": 1, "novelty": 2}})
    gadget.metadata.labels = {"a": "b"}
    gadget.spec.main.number = 5
    assert sent(gadget) == {
        **HEAD,
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {"size": 3, "novelty": {"deep": True}, "main": {"number": 5, "novelty": 2}},
    }


def test_a_change_to_the_default_is_sent():
    gadget = read({"size": 3, "on": True})
    gadget.spec.size, gadget.spec.on = 1, False
    assert spec_of(gadget) == {"size": 1, "on": False}


def test_defaults_of_the_class_are_not_added_to_what_was_read():
    gadget = read({"size": 3})
    gadget.spec.size = 4
    assert spec_of(gadget) == {"size": 4}
    gadget.spec.main.number = 443
    assert spec_of(gadget) == {"size": 4, "main": {"number": 443}}


def test_a_field_set_to_none_is_removed():
    gadget = read({"note": "x", "novelty": 1})
    gadget.spec.note = None
    assert spec_of(gadget) == {"novelty": 1}


def test_elements_of_a_list_keep_their_unknown_fields_when_others_are_added_removed_or_moved():
    gadget = read({"ports": [{"number": 1, "novelty": "a"}, {"number": 2, "novelty": "b"}, {"number": 3}]})
    first, second, third = gadget.spec.ports
    gadget.spec.ports = [third, first]
    assert spec_of(gadget)["ports"] == [{"number": 3}, {"number": 1, "novelty": "a"}]
    gadget.spec.ports = [second, first, third]
    assert [port.get("novelty") for port in spec_of(gadget)["ports"]] == ["b", "a", None]


def test_an_element_that_is_changed_in_place_keeps_its_unknown_fields():
    gadget = read({"ports": [{"number": 1, "novelty": "a"}, {"number": 2}]})
    gadget.spec.ports[0].is_open = False
    assert spec_of(gadget)["ports"] == [{"number": 1, "novelty": "a", "isOpen": False}, {"number": 2}]


def test_elements_with_a_name_are_found_by_it():
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "1", "novelty": 1}, {"name": "b", "image": "1"}]},
    }
    pod = class_decoder(Pod)(json.dumps(document).encode())
    pod.spec.containers[0].image = "2"
    pod.spec.containers = [Container(name="new"), pod.spec.containers[0]]
    assert sent(pod)["spec"]["containers"] == [{"name": "new"}, {"name": "a", "image": "2", "novelty": 1}]


def test_an_update_that_would_lose_fields_is_refused():
    gadget = read({"ports": [{"number": 1, "novelty": "a"}, {"number": 2, "novelty": "b"}]})
    gadget.spec.ports = [Port(number=7)]
    with pytest.raises(LossyUpdate, match=r"elements of spec\.ports have fields that the class Gadget does not have"):
        encode(gadget)
    gadget.spec.ports = []
    assert spec_of(gadget)["ports"] == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 3),
        "on": st.booleans(),
        "main": st.fixed_dictionaries({}, optional={"number": st.integers(0, 3), "novelty": VALUES}),
        "limits": st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=3),
        "novelty": VALUES,
    },
)


@given(SPECS, st.integers(0, 3), st.booleans())
def test_any_document_keeps_all_but_the_changes(document, size, on):
    gadget = read(document)
    assert spec_of(gadget) == document
    gadget.spec.size, gadget.spec.on = size, on
    after = spec_of(gadget)
    assert (after.get("size", 1), after.get("on", False)) == (size, on)
    assert {**after, "size": 0, "on": 0} == {**document, "size": 0, "on": 0}


# -- against a server -------------------------------------------------------------------------------------------------


def test_typed_writes_against_a_server(admin):
    """A class that knows less than the definition on the server, applied, updated and copied."""

    async def main():
        async with Client(admin, field_manager="documents", namespace="default") as client:
            made = definition(Gadget)
            spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["properties"]["novelty"] = {"type": "string"}
            for name in ("size", "on", "label", "main"):
                spec["properties"][name].pop("default", None)
            await client.apply(made, force=True)
            target = ("documents.example.com/v1", "Gadget")
            await client.create({**HEAD, "metadata": {"name": "g"}, "spec": {"size": 3, "on": True, "novelty": "kept"}})

            # A forced apply sets and owns fields that equal the defaults of the class.
            wanted = Gadget(metadata=ObjectMeta(name="g"), spec=GadgetSpec(size=1, on=False))
            await client.apply(wanted, force=True, field_manager="applier")
            found = await client.get(target, "g")
            assert found["spec"] == {"size": 1, "on": False, "novelty": "kept"}
            owned = {entry["manager"]: entry["fieldsV1"] for entry in found["metadata"]["managedFields"]}
            assert owned["applier"]["f:spec"] == {"f:size": {}, "f:on": {}}

            # A change of a label leaves what the class does not know.
            gadget = await client.get(Gadget, "g")
            gadget.metadata.labels = {"a": "b"}
            updated = await client.update(gadget)
            # A copy has forgotten the document; it is read again.
            again = msgspec.structs.replace(updated)
            again.metadata.labels = {"a": "c"}
            await client.update(again)
            found = await client.get(target, "g")
            assert found["spec"] == {"size": 1, "on": False, "novelty": "kept"}
            assert found["metadata"]["labels"] == {"a": "c"}
            with pytest.raises(Conflict):
                await client.update(updated)
            with pytest.raises(Conflict):
                await client.update(msgspec.structs.replace(updated))

            # A built-in kind keeps its objects whole as well.
            await client.create(
                Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=[Container(name="c", image="i")]))
            )
            pod = await client.get(Pod, "p")
            before = await client.get(("v1", "Pod"), "p")
            pod.metadata.labels = {"a": "b"}
            await client.update(pod)
            after = await client.get(("v1", "Pod"), "p")
            assert after["spec"] == before["spec"]
            await client.delete(Pod, "p", grace_period_seconds=0)
            await client.delete(made)

    asyncio.run(main())
