"""Several who apply at once, and long random runs of applies: nothing is lost, nothing is torn, nothing breaks."""

import asyncio
import itertools
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from api_client import APPLY, CM, DEPLOY, SVC, SlowStorage, cm, served, serving
from virtual_time import run

A = f"{CM}/a"
MANAGERS = ("m1", "m2", "m3")

raced = served(storage=SlowStorage)


async def applied(api, path, config, manager="m1", **query):
    return await api.patch(path, config, APPLY, fieldManager=manager, **query)


def statuses(answers):
    return Counter(answer.status for answer in answers)


# -- at once ----------------------------------------------------------------------------------------------------------


@raced
async def test_concurrent_applies_of_different_fields_are_all_kept(api):
    await api.made(CM, cm("a"))
    answers = await asyncio.gather(
        *(applied(api, A, cm("a", data={f"k{n}": "v"}), f"m{n}") for n in range(12)),
    )
    assert statuses(answers) == {200: 12}
    now = await api.get(A)
    assert now["data"] == {f"k{n}": "v" for n in range(12)}
    owners = {entry["manager"]: entry["fieldsV1"] for entry in now.metadata["managedFields"]}
    assert owners == {f"m{n}": {"f:data": {f"f:k{n}": {}}} for n in range(12)}


@raced
async def test_of_concurrent_applies_of_one_field_one_wins_and_the_others_conflict_with_it(api):
    await api.made(CM, cm("a"))
    answers = await asyncio.gather(*(applied(api, A, cm("a", data={"k": str(n)}), f"m{n}") for n in range(8)))
    assert statuses(answers) == {200: 1, 409: 7}
    (winner,) = [n for n, answer in enumerate(answers) if answer.status == 200]
    assert (await api.get(A))["data"] == {"k": str(winner)}
    messages = {answer.message for answer in answers if answer.status == 409}
    assert messages == {f'Apply failed with 1 conflict: conflict with "m{winner}": .data.k'}


@raced
async def test_of_concurrent_applies_that_create_one_creates_and_the_others_update(api):
    answers = await asyncio.gather(
        *(applied(api, A, cm("a", data={f"k{n}": "v"}), f"m{n}") for n in range(8)),
    )
    assert statuses(answers) == {201: 1, 200: 7}
    assert len({answer.metadata["uid"] for answer in answers}) == 1
    assert len((await api.get(A))["data"]) == 8


@raced
async def test_concurrent_apply_and_updates_are_all_kept(api):
    await api.made(CM, cm("a", data={"x": "y"}))
    answers = await asyncio.gather(
        *(applied(api, A, cm("a", data={f"a{n}": "v"}), f"m{n}") for n in range(5)),
        *(api.patch(A, {"data": {f"p{n}": "v"}}, fieldManager=f"p{n}") for n in range(5)),
    )
    assert statuses(answers) == {200: 10}
    now = await api.get(A)
    assert set(now["data"]) == {"x", *(f"a{n}" for n in range(5)), *(f"p{n}" for n in range(5))}
    owned = [name for entry in now.metadata["managedFields"] for name in entry["fieldsV1"]["f:data"] if name != "."]
    assert sorted(owned) == sorted(f"f:{name}" for name in now["data"])


@raced
async def test_an_update_with_a_stale_version_conflicts_after_an_apply(api):
    made = await api.made(CM, cm("a", data={"x": "y"}))
    first, second = await asyncio.gather(
        applied(api, A, cm("a", data={"k": "v"})), api.put(A, {**made, "data": {"x": "z"}}, fieldManager="hand")
    )
    assert sorted((first.status, second.status)) in ([200, 200], [200, 409])
    data = (await api.get(A))["data"]
    assert data["k"] == "v"
    assert data["x"] == ("z" if second.status == 200 else "y")


@raced
async def test_concurrent_applies_and_deletions_leave_a_whole_object_or_none(api):
    for number in range(5):
        await applied(api, A, cm("a", data={"k": str(number)}))
        answers = await asyncio.gather(
            applied(api, A, cm("a", data={"k": str(number)}), "m2"), api.delete(A), applied(api, A, cm("a"), "m3")
        )
        assert all(answer.status in (200, 201) for answer in answers), answers
        left = await api.get(A)
        assert left.status == 404 or left["kind"] == "ConfigMap"
        await api.delete(A)


# -- random runs ------------------------------------------------------------------------------------------------------


def _optional(**fields):
    return st.fixed_dictionaries({}, optional=fields)


_words = st.sampled_from(("1", "2"))
# Not empty: an empty map is owned but not stored, so that in kube-apiserver, too, the next apply adds it again, and
# with a second owner conflicts.
_labels = st.dictionaries(st.sampled_from("abc"), _words, min_size=1, max_size=3)
_metadata = _optional(
    labels=_labels,
    annotations=_labels,
    finalizers=st.lists(st.sampled_from(("a.io/1", "a.io/2")), unique=True, max_size=2),
)
_environment = st.lists(st.fixed_dictionaries({"name": st.sampled_from("AB")}, optional={"value": _words}), max_size=2)
_ports = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from((80, 81))}, optional={"protocol": st.sampled_from(("TCP", "UDP"))}
    ),
    max_size=2,
)
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("cd"), "image": _words},
        optional={
            "env": _environment,
            "ports": _ports,
            "args": st.lists(_words, max_size=2),
            "resources": st.sampled_from(({}, {"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}})),
        },
    ),
    min_size=1,
    max_size=2,
)


def _kind(api_version, kind, **fields):
    metadata = _metadata.map(lambda more: {"name": "x", **more})
    return st.fixed_dictionaries({"metadata": metadata}, optional=fields).map(
        lambda parts: {"apiVersion": api_version, "kind": kind, **parts}
    )


@st.composite
def _deployments(draw):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": draw(_containers)}}
    spec = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
        **draw(_optional(replicas=st.integers(0, 2))),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", **draw(_metadata)}, "spec": spec}


_config_maps = _kind("v1", "ConfigMap", data=st.dictionaries(st.sampled_from("abcd"), _words, min_size=1, max_size=4))
_services = _kind(
    "v1",
    "Service",
    spec=_optional(
        selector=_labels,
        sessionAffinity=st.sampled_from(("None", "ClientIP")),
        ports=st.lists(
            st.sampled_from(
                ({"port": 80, "name": "a"}, {"port": 81, "name": "b"}, {"port": 80, "name": "c", "protocol": "UDP"})
            ),
            unique_by=lambda port: port["name"],
            max_size=3,
        ),
    ),
)
_kinds = st.sampled_from(((f"{CM}/x", _config_maps), (f"{DEPLOY}/x", _deployments()), (f"{SVC}/x", _services)))


@st.composite
def _runs(draw):
    path, configs = draw(_kinds)
    steps = st.tuples(st.sampled_from(MANAGERS), st.booleans(), configs)
    return path, draw(st.lists(steps, min_size=2, max_size=7))


def _leaves(value, path=()):
    """The fields of a configuration down to its lists, which have rules of their own; one without items has no owner."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif value != []:
        yield path


def _owned(fields, path=()):
    """The paths of an entry."""
    if not fields:
        yield path
    for step, below in fields.items():
        yield from _owned(below, (*path, step.removeprefix("f:")))


_UNOWNED = {("apiVersion",), ("kind",), ("metadata", "name")}


def _check_owner(answer, manager, config):
    (entry,) = [
        entry
        for entry in answer.metadata.get("managedFields", [])
        if (entry["manager"], entry["operation"]) == (manager, "Apply")
    ] or [{"fieldsV1": {}}]
    owned = set(_owned(entry["fieldsV1"]))
    for path in set(_leaves(config)) - _UNOWNED:
        # What is below a list or a value with one owner counts as owned with it.
        assert any(mine[: len(path)] == path or path[: len(mine)] == mine for mine in owned), (path, entry)


@settings(max_examples=60, deadline=None)
@given(_runs())
def test_random_applies_are_idempotent_owned_and_never_break_the_server(case):
    path, steps = case

    async def main():
        async with serving() as api:
            for manager, force, config in steps:
                query = {"force": "true"} if force else {}
                before = api.revision
                answer = await applied(api, path, config, manager, **query)
                if answer.status >= 400:
                    # 500 only for a configuration that breaks the rules of its schema, as in kube-apiserver.
                    assert answer.status in (409, 422) or answer.message.startswith("failed to create typed patch")
                    assert not (force and answer.status == 409)
                    assert api.revision == before
                    continue
                _check_owner(answer, manager, config)
                stored = await api.get(path)
                assert stored.json == answer.json
                again = await applied(api, path, config, manager, **query)
                assert (again.status, again.json) == (200, answer.json)

    run(main())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), _words, max_size=4), min_size=3, max_size=3))
def test_forced_applies_end_the_same_whatever_came_between(configs):
    """The last forced apply has all of its fields, and fields without an owner are removed."""

    async def main():
        for order in itertools.permutations(range(3)):
            async with serving() as api:
                for number in order:
                    await applied(api, A, cm("a", data=configs[number]), f"m{number}", force="true")
                data = (await api.get(A)).json.get("data", {})
                assert set(data) == set().union(*configs)
                assert configs[order[-1]].items() <= data.items()
                for number in order:
                    await applied(api, A, cm("a"), f"m{number}")
                assert "data" not in (await api.get(A)).json

    run(main())
