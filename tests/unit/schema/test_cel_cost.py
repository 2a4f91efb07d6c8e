"""Estimated costs. The corpus has what kube-apiserver estimates for the same expressions and the same schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.cost.estimates import LARGEST, NOTHING_YET, UNKNOWN, ZERO, Estimate, exactly, wrapped
from kapi.schema.cel.environment import Environment
from kapi.schema.cel.types import BOOL
from kapi.schema.rules.declarations import declare, sizes_of
from kapi.schema.structural.model import read

if TYPE_CHECKING:
    from kapi.schema.cel.run.program import Program

CORPUS = json.loads(Path(__file__).with_name("cel_cost_corpus.json").read_text())
DECLARED = declare(read(CORPUS["schema"]), root=True)


def compiled(source: str) -> Program:
    assert DECLARED is not None
    of = DECLARED.type()
    return Environment({"self": of, "oldSelf": of}).compile(source, BOOL)


def cost(source: str) -> Estimate:
    assert DECLARED is not None
    return compiled(source).estimate(sizes_of(DECLARED))


@pytest.mark.parametrize(("source", "most"), CORPUS["costs"], ids=range(len(CORPUS["costs"])))
def test_estimates_are_those_of_kube_apiserver(source: str, most: int) -> None:
    assert cost(source).max == most


def test_the_least_cost_counts_short_cuts() -> None:
    assert cost("self.b || self.l.all(x, x == 'a')").min == 2
    assert cost("self.b ? self.s == 'a' : true").min == 2
    assert cost("true") == ZERO


def test_limits_of_the_schema_bound_the_cost() -> None:
    assert cost("self.lm.all(x, x.startsWith('a'))").max < cost("self.l.all(x, x.startsWith('a'))").max


def test_what_is_written_in_the_expression_has_its_own_size() -> None:
    assert cost("[1, 2, 3].all(x, x > 1)").max == cost("[4, 5, 6].all(x, x > 1)").max
    assert cost("[1, 2, 3].all(x, x > 1)").max < cost("[1, 2, 3, 4].all(x, x > 1)").max


def test_paths_of_sibling_fields_share_their_last_step() -> None:
    """A loop over `x.l` that looks at `x.b` is estimated by the size of `x.b`: cel-go does, so rules are accepted."""
    assert cost("self.lom.all(x, x.l.all(y, x.b > 1))").max == 33


@pytest.mark.parametrize(
    ("path", "size"),
    [
        (["self", "s"], Estimate(0, 3145726)),
        (["oldSelf", "sm"], Estimate(0, 40)),
        (["self", "lom"], Estimate(0, 5)),
        (["self", "lom", "@items", "k"], Estimate(0, 28)),
        (["self", "mom", "@values", "a"], Estimate(0, 3145726)),
        (["self", "mom", "@keys"], ZERO),
        (["self", "lom", "@keys"], None),
        (["self", "i", "@items"], None),
        (["self", "nope"], None),
        (["self"], ZERO),
        ([], None),
    ],
)
def test_sizes_of_inputs_are_found_by_path(path: list[str], size: Any) -> None:
    assert DECLARED is not None
    assert sizes_of(DECLARED)(path) == size


# -- the arithmetic of ranges -----------------------------------------------------------------------------------------

numbers = st.one_of(st.integers(0, 1000), st.integers(0, LARGEST), st.just(LARGEST))
estimates = st.tuples(numbers, numbers).map(lambda pair: Estimate(min(pair), max(pair)))


@given(estimates, estimates)
def test_sums_products_and_unions_commute_and_stay_in_range(left: Estimate, right: Estimate) -> None:
    for combine in (Estimate.plus, Estimate.times, Estimate.union):
        found = combine(left, right)
        assert found == combine(right, left)
        assert 0 <= found.min <= found.max <= LARGEST


@given(estimates, estimates)
def test_a_union_covers_both(left: Estimate, right: Estimate) -> None:
    union = left.union(right)
    assert union.min <= min(left.min, right.min)
    assert union.max >= max(left.max, right.max)
    assert NOTHING_YET.union(left) == left


@given(numbers, st.sampled_from([0.0, 0.1, 0.25, 1.0, 2.1, 50.0]))
def test_scaling_rounds_up_and_stops_at_the_largest(number: int, factor: float) -> None:
    scaled = exactly(number).scaled(factor)
    assert scaled.min == scaled.max <= LARGEST
    if number < 2**50:
        assert scaled.max >= number * factor - 1e-6 * number


def test_unknown_sizes_stay_unknown() -> None:
    assert UNKNOWN.plus(exactly(1)).max == LARGEST
    assert UNKNOWN.times(exactly(2)).max == LARGEST
    assert UNKNOWN.scaled(1.0).max == LARGEST
    assert wrapped(LARGEST + 1) == 0
