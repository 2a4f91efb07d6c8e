"""The rules of ownership: laws that hold for every kind, and a run of writes against a slow model."""

from __future__ import annotations

import copy

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ownership_model import SCHEMA, Model, places, shape_of

from kapi.api.ownership import fieldset as fs
from kapi.api.ownership.apply import APPLY, UPDATE, Claim, FieldConflicts, FieldOwner, Ownership, excluding, only
from kapi.api.ownership.merge import SAME, compare, merge, remove
from kapi.api.ownership.shape import DEDUCED, field_set, problems
from kapi.schema.builtin.typed import kind_schema

SHAPE = shape_of(SCHEMA)
VERSION = "v1"
RULES = Ownership(SHAPE, VERSION)

leaf = st.integers(1, 3)


def some(fields):
    return st.fixed_dictionaries({}, optional=fields).filter(bool)


inner = some({"p": leaf, "q": leaf})
items = st.lists(
    st.fixed_dictionaries({"n": st.sampled_from("abc")}, optional={"v": leaf, "o": inner}),
    min_size=1,
    max_size=3,
    unique_by=lambda item: item["n"],
)
objects = st.fixed_dictionaries(
    {},
    optional={
        "a": leaf,
        "b": leaf,
        "s": st.lists(st.sampled_from("xyz"), min_size=1, unique=True),
        "m": st.dictionaries(st.sampled_from("ab"), some({"x": leaf, "y": leaf}), min_size=1),
        "k": items,
        "o": some({"l": leaf, "d": some({"z": leaf})}),
    },
)
writes = st.lists(
    st.tuples(
        st.sampled_from([UPDATE, APPLY, APPLY]), st.sampled_from(["one", "two", "three"]), objects, st.booleans()
    ),
    min_size=1,
    max_size=8,
)


def applier(manager):
    return FieldOwner(manager, APPLY, "", "")


def updater(manager):
    return FieldOwner(manager, UPDATE, VERSION, "")


def update(live, new, claims, manager):
    taken, claims = RULES.update(live, new, claims)
    if taken:
        previous = claims[updater(manager)].fields if updater(manager) in claims else {}
        claims = {**claims, updater(manager): Claim(fs.union(previous, taken), VERSION)}
    return new, claims


def normal(claims):
    return {(who.operation, who.manager): set(fs.paths(claim.fields)) for who, claim in claims.items()}


def in_any_order(value):
    if isinstance(value, dict):
        return {key: in_any_order(below) for key, below in value.items()}
    return sorted((in_any_order(item) for item in value), key=repr) if isinstance(value, list) else value


# -- against the model ------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(writes)
def test_random_writes_agree_with_the_model(run):
    model, live, claims = Model(), {}, {}
    for operation, manager, value, force in run:
        before = copy.deepcopy((live, claims, value))
        if operation == UPDATE:
            model.update(manager, value)
            new, new_claims = update(live, value, claims, manager)
        else:
            expected = model.apply(manager, value, force=force)
            try:
                new, new_claims = RULES.apply(live, value, claims, applier(manager), force=force)
            except FieldConflicts as conflicts:
                found = {
                    (f"{who.operation}/{who.manager}", path)
                    for who, s in conflicts.fields.items()
                    for path in fs.paths(s)
                }
                assert found == expected
                continue
            assert expected is None
        assert (live, claims, value) == before, "a write changes nothing but its result"
        live, claims = new, new_claims
        assert places(SCHEMA, live) == model.state
        assert normal(claims) == {who: paths for who, paths in model.claims.items() if paths}


# -- laws -------------------------------------------------------------------------------------------------------------


@given(objects, objects)
def test_applying_twice_changes_nothing(live, config):
    once, claims = RULES.apply(live, config, {}, applier("one"), force=True)
    again, same_claims = RULES.apply(once, config, claims, applier("one"), force=False)
    assert again is once
    assert same_claims == claims


@given(objects, objects)
def test_applied_fields_are_in_the_result(live, config):
    merged = merge(SHAPE, live, config)
    assert places(SCHEMA, merged) == {**places(SCHEMA, live), **places(SCHEMA, config)}
    assert problems(SHAPE, merged) == []
    assert merge(SHAPE, merged, config) is merged


@given(objects, objects)
def test_items_of_a_configuration_keep_their_order(live, config):
    merged = merge(SHAPE, live, config)
    for name in ("s", "k"):
        wanted = [item if name == "s" else item["n"] for item in config.get(name, [])]
        found = [item if name == "s" else item["n"] for item in merged.get(name, [])]
        assert [item for item in found if item in wanted] == wanted


@given(objects, objects)
def test_applies_of_disjoint_fields_commute(one, other):
    assume(not fs.intersection(fs.leaves(field_set(SHAPE, one)), fs.leaves(field_set(SHAPE, other))))
    first, claims = RULES.apply({}, one, {}, applier("one"), force=False)
    first, claims = RULES.apply(first, other, claims, applier("two"), force=False)
    second, other_claims = RULES.apply({}, other, {}, applier("two"), force=False)
    second, other_claims = RULES.apply(second, one, other_claims, applier("one"), force=False)
    assert in_any_order(first) == in_any_order(second)
    assert claims == other_claims


@given(writes)
def test_every_leaf_has_an_owner(run):
    live, claims = {}, {}
    for operation, manager, value, _ in run:
        if operation == UPDATE:
            live, claims = update(live, value, claims, manager)
        else:
            live, claims = RULES.apply(live, value, claims, applier(manager), force=True)
    owned = {path for claim in claims.values() for path in fs.paths(claim.fields)}
    assert {path for path, (kind, _) in places(SCHEMA, live).items() if kind == "leaf"} <= owned


@given(objects, objects)
def test_comparison_reports_removed_and_merged_fields(old, new):
    comparison = compare(SHAPE, old, new)
    assert (comparison is SAME) == (in_any_order(old) == in_any_order(new))
    rest = remove(SHAPE, old, comparison.removed) if comparison.removed else old
    assert places(SCHEMA, merge(SHAPE, rest or {}, new)) == places(SCHEMA, new)


@given(objects)
def test_removing_everything_leaves_nothing(value):
    assume(value)
    assert remove(SHAPE, value, fs.of(*((step,) for step in field_set(SHAPE, value)))) is None


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, True, 1.0, "1", None, [], {}, {"x": 1}, [True], [1]]))
)
def test_a_number_is_not_a_boolean_without_a_schema(value):
    swapped = {int: bool, bool: int}
    other = {key: swapped.get(type(item), lambda same: same)(item) for key, item in value.items()}
    changed = {key for key, item in value.items() if type(item) in swapped}
    assert set(compare(DEDUCED, value, other).modified) == {f"f:{key}" for key in changed}


# -- examples ---------------------------------------------------------------------------------------------------------


def test_a_map_that_becomes_a_leaf_is_modified_and_its_keys_removed():
    comparison = compare(DEDUCED, {"a": {"b": 1}, "c": 1}, {"a": 1, "c": {"d": 1}})
    assert comparison == ({"f:a": {"f:b": {}}}, {"f:a": {}, "f:c": {}}, {"f:c": {"f:d": {}}})


def test_applied_nulls_replace_leaves_and_keep_maps():
    merged = merge(SHAPE, {"a": 1, "o": {"l": 1}, "s": ["x"]}, {"a": None, "o": None, "s": None})
    assert merged == {"a": None, "o": {"l": 1}, "s": ["x"]}


def test_items_with_duplicate_keys_are_owned_together():
    twice, once = {"s": ["x", "x"]}, {"s": ["x"]}
    assert compare(SHAPE, once, twice) == ({"f:s": {'v:"x"': {}}}, {}, {"f:s": {'v:"x"': {}}})
    assert compare(SHAPE, twice, {"s": ["x", "x", "x"]}).modified == {"f:s": {'v:"x"': {}}}


def test_live_items_keep_their_order_around_applied_items():
    assert merge(SHAPE, {"s": ["x", "y", "z"]}, {"s": ["z", "x"]})["s"] == ["y", "z", "x"]
    assert merge(SHAPE, {"s": ["x", "y"]}, {"s": ["w", "x"]})["s"] == ["w", "x", "y"]
    live = {"s": ["x", "y"]}
    assert merge(SHAPE, live, {"s": ["x"]}) is live


def test_reset_fields_are_neither_owned_nor_in_conflict():
    rules = Ownership(DEDUCED, VERSION, reset=excluding(fs.fields("status")))
    live, config = {"spec": {"a": 1}, "status": {"b": 1}}, {"spec": {"a": 1}, "status": {"b": 2}}
    claims = {updater("other"): Claim(fs.of(fs.fields("status", "b")), VERSION)}
    _, claims = rules.apply(live, config, claims, applier("one"), force=False)
    assert claims[applier("one")].fields == {"f:spec": {".": {}, "f:a": {}}}
    assert claims[updater("other")].fields == {"f:status": {"f:b": {}}}


def test_a_subresource_may_own_only_fields_that_match_a_pattern():
    rules = Ownership(DEDUCED, VERSION, reset=only(("f:spec", fs.ANY, "f:x")))
    taken, _ = rules.update({}, {"spec": {"a": {"x": 1, "y": 1}}, "status": {"b": 1}}, {})
    assert taken == {"f:spec": {".": {}, "f:a": {".": {}, "f:x": {}}}}


def renamed(obj, api_version):
    """Version v2 calls `a` `alpha`; v0 is no longer served."""
    if api_version == "v0":
        return None
    names = {"a": "alpha"} if api_version == "v2" else {"alpha": "a"}
    return DEDUCED, {**{names.get(key, key): value for key, value in obj.items()}, "apiVersion": api_version}


def test_managed_fields_of_another_version_are_compared_at_that_version():
    rules = Ownership(DEDUCED, "v1", at_version=renamed)
    live = {"apiVersion": "v1", "a": 1, "b": 1}
    claims = {
        FieldOwner("two", APPLY, "", ""): Claim(fs.of(fs.fields("alpha"), fs.fields("b")), "v2"),
        FieldOwner("old", UPDATE, "v0", ""): Claim(fs.of(fs.fields("a")), "v0"),
    }
    with pytest.raises(FieldConflicts) as raised:
        rules.apply(live, {"apiVersion": "v1", "a": 2}, claims, applier("one"), force=False)
    assert raised.value.fields == {FieldOwner("two", APPLY, "", ""): {"f:alpha": {}}}
    _, claims = rules.update(live, {"apiVersion": "v1", "a": 2, "b": 1}, claims)
    assert claims == {FieldOwner("two", APPLY, "", ""): Claim({"f:b": {}}, "v2")}


def test_applying_at_another_version_removes_what_was_applied_at_the_first():
    rules = Ownership(DEDUCED, "v1", at_version=renamed)
    live = {"apiVersion": "v1", "a": 1, "b": 1, "c": 1}
    owner = applier("one")
    claims = {
        owner: Claim(fs.of(fs.fields("alpha"), fs.fields("b"), fs.fields("c")), "v2"),
        updater("other"): Claim(fs.of(fs.fields("c")), "v1"),
    }
    merged, claims = rules.apply(live, {"apiVersion": "v1", "b": 1}, claims, owner, force=False)
    assert merged == {"apiVersion": "v1", "b": 1, "c": 1}
    assert claims[owner] == Claim({"f:b": {}}, "v1")


# -- built-in kinds ---------------------------------------------------------------------------------------------------


container = st.fixed_dictionaries(
    {"name": st.sampled_from(["c1", "c2"])},
    optional={
        "image": st.sampled_from(["i1", "i2"]),
        "args": st.lists(st.sampled_from("xy"), max_size=2),
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("AB")}, optional={"value": st.sampled_from("12")}),
            unique_by=lambda env: env["name"],
        ),
        "ports": st.lists(
            st.fixed_dictionaries({"containerPort": st.sampled_from([80, 443])}, optional={"name": st.just("web")}),
            unique_by=lambda port: port["containerPort"],
        ),
        "resources": st.fixed_dictionaries({}, optional={"limits": st.just({"cpu": "1"})}),
    },
)
pod_specs = st.fixed_dictionaries(
    {"containers": st.lists(container, unique_by=lambda c: c["name"], max_size=2)},
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")),
        "volumes": st.just([{"name": "v", "emptyDir": {}}]),
        "securityContext": st.fixed_dictionaries({}, optional={"runAsUser": st.integers(1, 2)}),
    },
)
labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("12"), max_size=2)
KINDS = {
    ("", "Pod"): st.fixed_dictionaries({"spec": pod_specs}),
    ("apps", "Deployment"): st.fixed_dictionaries(
        {
            "spec": st.fixed_dictionaries(
                {}, optional={"replicas": st.integers(1, 2), "template": st.fixed_dictionaries({"spec": pod_specs})}
            )
        }
    ),
    ("", "Service"): st.fixed_dictionaries(
        {
            "spec": st.fixed_dictionaries(
                {},
                optional={
                    "ports": st.lists(
                        st.fixed_dictionaries(
                            {"port": st.sampled_from([80, 443])}, optional={"name": st.sampled_from("ab")}
                        ),
                        unique_by=lambda port: port["port"],
                    ),
                    "selector": labels,
                },
            )
        }
    ),
    ("", "ConfigMap"): st.fixed_dictionaries({}, optional={"data": labels}),
}


def full(value):
    """Without what is empty, which decoding may drop."""
    if isinstance(value, dict):
        return {key: below for key, item in value.items() if (below := full(item)) not in ({}, [])}
    return [full(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("group", "kind"), KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_applies_to_built_in_kinds_are_idempotent_and_stay_in_the_schema(group, kind, data):
    schema = kind_schema(group, "v1", kind)
    rules = Ownership(schema.shape, VERSION)
    live, claims = {}, {}
    for manager in data.draw(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=4)):
        config = full(data.draw(KINDS[(group, kind)]) | {"metadata": {"name": "n", "labels": data.draw(labels)}})
        assert problems(schema.shape, config) == []
        live, claims = rules.apply(live, config, claims, applier(manager), force=True)
        live = copy.deepcopy(live)
        assert schema.coerce(live) == []
        again, same_claims = rules.apply(live, config, claims, applier(manager), force=False)
        again = copy.deepcopy(again)
        assert schema.coerce(again) == []
        assert (again, same_claims) == (live, claims)
