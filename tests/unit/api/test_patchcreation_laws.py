"""What holds for all patches that are made here, on random objects without nulls and without items named twice."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.patch import strategicmerge
from kapi.api.patch.creation import (
    PatchConflict,
    json_merge_patch,
    three_way_json_merge_patch,
    three_way_merge_patch,
    two_way_merge_patch,
)
from kapi.api.patch.mergepatch import merge
from kapi.schema.builtin.typed import kind_schema

# -- objects of real kinds, small enough that any two have much in common ----------------------------------------------


def some(**fields):
    return st.fixed_dictionaries({}, optional=fields)


def one(*values):
    return st.sampled_from(values)


def keyed(key, values, fields):
    item = st.tuples(one(*values), fields).map(lambda pair: {key: pair[0], **pair[1]})
    return st.lists(item, max_size=3, unique_by=lambda made: made[key])


names = st.lists(one(*"abcd"), unique=True, max_size=4)
labels = st.dictionaries(one(*"klm"), one("x", "y"), max_size=3)
metadata = some(
    labels=labels, annotations=labels, finalizers=names, ownerReferences=keyed("uid", "uv", some(name=one("a", "b")))
)
container = some(
    image=one("i", "j"),
    args=names,
    tty=st.booleans(),
    env=keyed("name", "AB", some(value=one("1", "2"), valueFrom=some(fieldRef=some(fieldPath=one("p", "q"))))),
    ports=keyed("containerPort", [80, 443, 9], some(protocol=one("TCP", "UDP"))),
)
volume = some(emptyDir=some(medium=one("", "Memory")), hostPath=some(path=one("/x", "/y")))
pod_spec = some(
    containers=keyed("name", ["web", "proxy", "side"], container),
    volumes=keyed("name", "vwx", volume),
    nodeSelector=labels,
    tolerations=st.lists(some(key=one("a", "b")), max_size=2),
)
template = some(metadata=metadata, spec=pod_spec)
rollout = some(type=one("Recreate", "RollingUpdate"), rollingUpdate=some(maxSurge=one(1, "25%")))
selector = some(matchLabels=labels)
node_spec = some(podCIDRs=names, taints=st.lists(some(key=one("a", "b")), max_size=2))

KINDS = {
    ("", "Pod"): some(metadata=metadata, spec=pod_spec),
    ("apps", "Deployment"): some(metadata=metadata, spec=some(replicas=one(1, 2), strategy=rollout, template=template)),
    ("policy", "PodDisruptionBudget"): some(metadata=metadata, spec=some(selector=selector, minAvailable=one(1, "5%"))),
    ("", "Node"): some(metadata=metadata, spec=node_spec),
}


@st.composite
def objects(draw, count):
    """A schema, and objects of its kind."""
    group, kind = draw(one(*KINDS))
    return kind_schema(group, "v1", kind).merge, *(draw(KINDS[group, kind]) for _ in range(count))


scalars = st.booleans() | st.integers(-2, 2) | st.floats(-2, 2, width=16) | st.text("ab", max_size=1)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(one(*"abc"), inner))
documents = st.dictionaries(one(*"abc"), values)


# -- two ways ---------------------------------------------------------------------------------------------------------


@given(objects(2))
def test_a_patch_turns_the_one_object_into_the_other(drawn):
    schema, original, modified = drawn
    patch = two_way_merge_patch(original, modified, schema)
    assert strategicmerge.apply(original, patch, schema) == modified


@given(objects(2))
def test_equal_objects_and_only_they_need_no_patch(drawn):
    schema, original, modified = drawn
    assert two_way_merge_patch(original, copy.deepcopy(original), schema) == {}
    assert bool(two_way_merge_patch(original, modified, schema)) is (original != modified)


@given(objects(3))
def test_arguments_stay_as_they_were(drawn):
    schema, *objs = drawn
    before = copy.deepcopy(objs)
    two_way_merge_patch(*objs[:2], schema)
    three_way_merge_patch(*objs, schema)
    three_way_json_merge_patch(*objs)
    assert objs == before


@given(documents, documents)
def test_a_json_merge_patch_turns_the_one_document_into_the_other(original, modified):
    merged = merge(original, json_merge_patch(original, modified))
    # As text, since 1, 1.0 and True are equal in Python and not in JSON.
    assert repr(in_order(merged)) == repr(in_order(modified))


def in_order(value):
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


@given(documents)
def test_equal_documents_need_no_json_merge_patch(document):
    assert json_merge_patch(document, copy.deepcopy(document)) == {}


@given(documents, documents)
def test_without_a_schema_both_kinds_of_patch_are_the_same(original, modified):
    assert two_way_merge_patch(original, modified, None) == json_merge_patch(original, modified)


# -- three ways -------------------------------------------------------------------------------------------------------


@given(objects(2))
def test_without_other_writers_a_three_way_patch_equals_a_two_way_patch(drawn):
    schema, original, modified = drawn
    patch = two_way_merge_patch(original, modified, schema)
    assert three_way_merge_patch(original, modified, original, schema) == patch
    assert three_way_merge_patch(original, modified, original, schema, overwrite=False) == patch


@given(documents, documents)
def test_without_other_writers_a_three_way_json_patch_equals_a_two_way_patch(original, modified):
    assert three_way_json_merge_patch(original, modified, original) == json_merge_patch(original, modified)


@given(objects(3))
def test_the_object_has_all_that_the_configuration_has(drawn):
    schema, original, modified, current = drawn
    result = applied(schema, original, modified, current)
    assert covers(result, modified, schema)


@given(documents, documents, documents)
def test_the_object_has_all_that_the_configuration_has_in_json(original, modified, current):
    result = merge(current, three_way_json_merge_patch(original, modified, current))
    assert covers(result, modified, None)


@given(objects(3))
def test_applying_once_more_changes_nothing(drawn):
    schema, original, modified, current = drawn
    result = applied(schema, original, modified, current)
    assert applied(schema, modified, modified, result) == result


@given(labels, labels, labels)
def test_keys_stay_unless_the_configuration_had_them_before(original, modified, current):
    schema = kind_schema("", "v1", "Pod").merge
    result = applied(schema, *({"metadata": {"labels": made}} for made in (original, modified, current)))
    theirs = {key: value for key, value in current.items() if key not in original}
    assert result == {"metadata": {"labels": theirs | modified}}


pods = st.fixed_dictionaries({"containers": keyed("name", ["web", "proxy", "side"], container)})


@given(pods, pods, pods)
def test_items_stay_unless_the_configuration_had_them_before(original, modified, current):
    schema = kind_schema("", "v1", "Pod").merge
    result = applied(schema, *({"spec": made} for made in (original, modified, current)))["spec"]["containers"]
    before, ours, live, after = (
        [item["name"] for item in made]
        for made in (original["containers"], modified["containers"], current["containers"], result)
    )
    assert set(after) == set(ours) | (set(live) - set(before))
    assert [name for name in after if name in ours] == ours
    theirs = [item for item in result if item["name"] not in ours]
    assert theirs == [item for item in current["containers"] if item["name"] not in {*before, *ours}]


@given(objects(3))
def test_an_application_without_conflict_is_that_with_overwriting(drawn):
    schema, original, modified, current = drawn
    try:
        patch = three_way_merge_patch(original, modified, current, schema, overwrite=False)
    except PatchConflict as conflict:
        patch = conflict.patch
    assert patch == three_way_merge_patch(original, modified, current, schema)


@given(one("1", "2"), one("1", "2"), one("1", "2"))
def test_a_conflict_is_a_field_changed_in_two_ways(original, modified, current):
    schema = kind_schema("", "v1", "Pod").merge
    objs = [{"metadata": {"labels": {"k": value}}} for value in (original, modified, current)]
    if current not in (original, modified):
        with pytest.raises(PatchConflict):
            three_way_merge_patch(*objs, schema, overwrite=False)
    else:
        assert applied(schema, *objs, overwrite=False) == objs[1]


def applied(schema, original, modified, current, **options):
    patch = three_way_merge_patch(original, modified, current, schema, **options)
    return strategicmerge.apply(current, patch, schema)


def covers(result, wanted, schema):
    """Whether all of `wanted` is in `result`: items by their key, scalars of sets, other lists as a whole."""
    if isinstance(wanted, dict):
        below = [(key, value, schema.child(key) if schema else None) for key, value in wanted.items()]
        return isinstance(result, dict) and all(
            key in result and covers(result[key], value, node) for key, value, node in below
        )
    if not isinstance(wanted, list) or not schema or "merge" not in schema.strategies:
        return result == wanted
    if not schema.merge_key:
        return [item for item in result if item in wanted] == wanted
    found = {item[schema.merge_key]: item for item in result}
    return all(covers(found.get(item[schema.merge_key]), item, schema.items) for item in wanted)
