import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.errors import RequestEntityTooLarge
from kapi.api.patch.jsonpatch import PatchApplyError, PatchDecodeError, apply, decode_operations


def patched(doc, *operations):
    return apply(doc, decode_operations(list(operations)))


def op(kind, path, **more):
    return {"op": kind, "path": path} | more


@pytest.mark.parametrize(
    ("doc", "operation", "result"),
    [
        ({}, op("add", "/a", value=1), {"a": 1}),
        ({"a": 1}, op("add", "/a", value=2), {"a": 2}),
        ({"a": [1, 3]}, op("add", "/a/1", value=2), {"a": [1, 2, 3]}),
        ({"a": [1]}, op("add", "/a/-", value=2), {"a": [1, 2]}),
        ({"a": [1, 3]}, op("add", "/a/-2", value=2), {"a": [1, 2, 3]}),
        ({"a": [1]}, op("add", "/a/-1", value=2), {"a": [1, 2]}),
        ({"a": 1, "b": 2}, op("remove", "/a"), {"b": 2}),
        ({"a": [1, 2]}, op("remove", "/a/-1"), {"a": [1]}),
        ({"a": {"b": 1}}, op("replace", "/a/b", value=2), {"a": {"b": 2}}),
        ({"a": {}}, op("replace", "/a/b", value=2), {"a": {"b": 2}}),
        ({"a": [1, 2]}, op("replace", "/a/1", value=3), {"a": [1, 3]}),
        ({"a": 1}, op("replace", "", value={"b": 2}), {"b": 2}),
        ({"a": {"b": 1}, "c": {}}, {"op": "move", "from": "/a/b", "path": "/c/d"}, {"a": {}, "c": {"d": 1}}),
        ({"a": [1, 2]}, {"op": "move", "from": "/a/0", "path": "/a/-"}, {"a": [2, 1]}),
        ({"a": {"b": 1}}, {"op": "copy", "from": "/a", "path": "/c"}, {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, {"op": "copy", "from": "/x", "path": "/c"}, {"a": 1, "c": None}),
        ({"a/b": 1, "c~d": 2}, op("remove", "/a~1b"), {"c~d": 2}),
        ({"a/b": 1, "c~d": 2}, op("remove", "/c~0d"), {"a/b": 1}),
        ({"~1": 1}, op("remove", "/~01"), {}),
        ({"": 1}, op("remove", "/"), {}),
        ({"a": 1}, op("remove", "ignored/a"), {}),
        ({"a": 1}, op("add", "/b"), {"a": 1, "b": None}),
        ({"a": 1}, op("test", "/a", value=1), {"a": 1}),
        ({"a": 1}, op("test", "/b", value=None), {"a": 1}),
        ({"a": 1}, op("test", "/b"), {"a": 1}),
        ({"a": {"b": [1]}}, op("test", "", value={"a": {"b": [1]}}), {"a": {"b": [1]}}),
    ],
)
def test_one_operation(doc, operation, result):
    assert patched(doc, operation) == result


@pytest.mark.parametrize(
    ("doc", "operation"),
    [
        ({}, op("add", "/a/b", value=1)),
        ({"a": "x"}, op("add", "/a/b", value=1)),
        ({}, op("add", "", value={})),
        ({}, op("add", "a", value=1)),
        ({}, {"op": "add", "value": 1}),
        ({"a": []}, op("add", "/a/1", value=1)),
        ({"a": []}, op("add", "/a/x", value=1)),
        ({"a": []}, op("add", "/a/-2", value=1)),
        ({}, op("remove", "/a")),
        ({"a": [1]}, op("remove", "/a/1")),
        ({"a": [1]}, op("remove", "/a/-")),
        ({"a": [1]}, op("replace", "/a/1", value=2)),
        ({}, op("replace", "", value=3)),
        ({}, op("replace", "")),
        ({}, {"op": "move", "from": "/a", "path": "/b"}),
        ({"a": 1}, {"op": "move", "path": "/b"}),
        ({"a": 1}, {"op": "copy", "path": "/b"}),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ({"a": 1}, op("test", "/a", value=2)),
        ({"a": 1}, op("test", "/a", value=1.0)),
        ({"a": 1}, op("test", "/a", value=True)),
        ({"a": None}, op("test", "/a", value=1)),
        ({"a": 1}, op("test", "/a")),
        ({"a": []}, op("test", "/a/0", value=None)),
        ({}, op("frob", "/a")),
        ({}, {}),
    ],
)
def test_operations_that_do_not_fit_fail(doc, operation):
    with pytest.raises(PatchApplyError):
        patched(doc, operation)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (op("frob", "/a"), "Unexpected kind: frob"),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
        ({"op": "replace"}, "replace operation failed to decode path: operation missing path field: missing value"),
        ({"op": "move"}, "move operation failed to decode from: operation, missing from field: missing value"),
        (op("add", "/x/y", value=1), 'add operation does not apply: doc is missing path: "/x/y": missing value'),
        (op("add", "x"), 'add operation does not apply: doc is missing path: "x": missing value'),
        (
            op("add", "/list/5"),
            "error in add for path: '/list/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (
            op("add", "/list/x"),
            (
                "error in add for path: '/list/x': value was not a proper array index: 'x': "
                'strconv.Atoi: parsing "x": invalid syntax'
            ),
        ),
        (
            op("remove", "/map/b"),
            "error in remove for path: '/map/b': Unable to remove nonexistent key: b: missing value",
        ),
        (op("remove", "/x/b"), 'remove operation does not apply: doc is missing path: "/x/b": missing value'),
        (
            op("remove", "/list/x"),
            "error in remove for path: '/list/x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (op("replace", "/x/b"), "replace operation does not apply: doc is missing path: /x/b: missing value"),
        (op("replace", "/list/7"), "replace operation does not apply: doc is missing key: /list/7: missing value"),
        (
            op("move", "/y", **{"from": "/map/b"}),
            "error in move for path: 'b': Unable to remove nonexistent key: b: missing value",
        ),
        (
            op("copy", "/x/y", **{"from": "/map/a"}),
            "copy operation does not apply: doc is missing destination path: /x/y: missing value",
        ),
        (op("test", "/map/a", value=2), "testing value /map/a failed: test failed"),
        (op("test", "/x/a", value=2), "test operation does not apply: is missing path: /x/a: missing value"),
    ],
)
def test_an_operation_that_does_not_fit_is_reported_in_the_words_that_go_reports_it(operation, message):
    with pytest.raises(PatchApplyError) as caught:
        patched({"map": {"a": 1}, "list": [1]}, operation)
    assert str(caught.value) == message


def test_operations_run_in_order_and_see_each_other():
    steps = [
        op("add", "/list", value=[]),
        op("add", "/list/-", value={"n": 1}),
        op("copy", "/list/-", **{"from": "/list/0"}),
        op("replace", "/list/1/n", value=2),
        op("test", "/list", value=[{"n": 1}, {"n": 2}]),
    ]
    assert patched({}, *steps) == {"list": [{"n": 1}, {"n": 2}]}


def test_a_copy_is_independent_of_what_it_was_copied_from():
    steps = [
        op("add", "/a/x", value=1),
        op("copy", "/b", **{"from": "/a"}),
        op("replace", "/b/x", value=2),
        op("replace", "/a/y", value=3),
    ]
    assert patched({"a": {}}, *steps) == {"a": {"x": 1, "y": 3}, "b": {"x": 2}}


def test_no_operation_is_no_change():
    doc = {"a": 1}
    assert patched(doc) is doc
    assert apply(doc, decode_operations(None)) is doc


def test_copied_bytes_are_bounded():
    doc = {"a": "x" * 1_000_000}
    copies = [op("copy", f"/b{number}", **{"from": "/a"}) for number in range(4)]
    assert len(patched(doc, *copies[:3])) == 4
    with pytest.raises(PatchApplyError):
        patched(doc, *copies)


def test_operations_are_bounded():
    assert len(decode_operations([op("test", "/a")] * 10_000)) == 10_000
    with pytest.raises(RequestEntityTooLarge) as caught:
        decode_operations([op("test", "/a")] * 10_001)
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"op": "x"}, "object into Go value of type []handlers.jsonPatchOp"),
        ("x", "string into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": True}], "bool into Go struct field jsonPatchOp.op of type string"),
        ([{"op": "add", "path": []}], "array into Go struct field jsonPatchOp.path of type string"),
    ],
)
def test_bodies_that_are_no_patch_are_refused_with_the_message_of_the_decoder(body, message):
    with pytest.raises(PatchDecodeError) as caught:
        decode_operations(body)
    assert str(caught.value) == f"error decoding patch: json: cannot unmarshal {message}"


def test_without_field_validation_the_text_is_bare_and_types_fail_later():
    with pytest.raises(
        PatchDecodeError, match=r"^json: cannot unmarshal object into Go value of type jsonpatch.Patch$"
    ):
        decode_operations({}, typed=False)
    with pytest.raises(PatchApplyError):
        apply({}, decode_operations([{"op": 1, "path": "/a"}], typed=False))


# -- against a naive model --------------------------------------------------------------------------------------------

values = st.recursive(
    st.sampled_from([1, 2, "x", True]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=6,
)
docs = st.dictionaries(st.sampled_from("ab"), values, max_size=2)
paths = st.lists(st.sampled_from(["a", "b", "0", "1", "-1", "-"]), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
operations = st.builds(
    lambda kind, path, source, value: {"op": kind, "path": path, "from": source, "value": value},
    st.sampled_from(["add", "remove", "replace", "move", "copy"]),
    paths,
    paths,
    values,
)


class Model:
    """The same rules on a deep copy, written for reading."""

    def __init__(self, doc):
        self.doc = copy.deepcopy(doc)

    def place(self, path):
        *parents, last = path.split("/")[1:]
        here = self.doc
        for part in parents:
            here = here[part if isinstance(here, dict) else int(part)]
        if not isinstance(here, (dict, list)):
            raise TypeError
        return here, last

    def run(self, step):
        if step["op"] == "add":
            self.add(step["path"], copy.deepcopy(step["value"]))
        elif step["op"] == "remove":
            self.remove(step["path"])
        elif step["op"] == "replace":
            here, last = self.place(step["path"])
            here[last if isinstance(here, dict) else int(last)] = copy.deepcopy(step["value"])
        elif step["op"] == "move":
            self.add(step["path"], self.remove(step["from"]))
        else:
            here, last = self.place(step["from"])
            value = here.get(last) if isinstance(here, dict) else here[int(last)]
            self.add(step["path"], copy.deepcopy(value))

    def add(self, path, value):
        here, last = self.place(path)
        if isinstance(here, dict):
            here[last] = value
        elif last == "-":
            here.append(value)
        else:
            index = int(last) + (len(here) + 1 if int(last) < 0 else 0)
            if not 0 <= index <= len(here):
                raise IndexError
            here.insert(index, value)

    def remove(self, path):
        here, last = self.place(path)
        return here.pop(last if isinstance(here, dict) else int(last))


@given(docs, st.lists(operations, max_size=5))
def test_patches_agree_with_a_naive_model_and_leave_their_arguments_alone(doc, steps):
    before = copy.deepcopy((doc, steps))
    model = Model(doc)
    try:
        for step in steps:
            model.run(step)
    except (KeyError, IndexError, ValueError, TypeError):
        with pytest.raises(PatchApplyError):
            patched(doc, *steps)
    else:
        assert patched(doc, *steps) == model.doc
    assert (doc, steps) == before


@given(docs, st.lists(operations, max_size=4))
def test_decoded_operations_can_be_applied_again(doc, steps):
    decoded = decode_operations(steps)
    try:
        first = copy.deepcopy(apply(doc, decoded))
    except PatchApplyError:
        return
    assert apply(doc, decoded) == first
