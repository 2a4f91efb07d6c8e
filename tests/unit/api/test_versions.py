"""The order of API versions."""

import re

from hypothesis import given
from hypothesis import strategies as st

from kapi.api.versions import by_priority

ORDER = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]

numbers = st.integers(min_value=1, max_value=30)
proper = st.builds(
    lambda major, stage, minor: f"v{major}{stage}{minor if stage else ''}",
    numbers,
    st.sampled_from(["", "alpha", "beta"]),
    numbers,
)
other = st.text("v0123456789abeht", min_size=1, max_size=8).filter(
    lambda text: not re.fullmatch(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?", text)
)


def test_the_order_is_the_documented_one():
    assert sorted(ORDER, key=by_priority) == ORDER


def test_what_only_looks_like_a_version_comes_last():
    assert min(["v01", "v1beta0", "v1gamma1", "v1", "v1\n", "V1"], key=by_priority) == "v1"
    assert by_priority("v1\n") > by_priority("v1alpha1")


@given(proper, other)
def test_versions_come_before_other_names(version, name):
    assert by_priority(version) < by_priority(name)


@given(st.lists(proper | other, unique=True))
def test_the_order_is_total(names):
    keys = [by_priority(name) for name in names]
    assert len(set(keys)) == len(names)


@given(numbers, numbers, st.sampled_from(["alpha", "beta"]), numbers)
def test_what_is_stable_comes_before_what_is_not_and_newer_before_older(major, older, stage, minor):
    assert by_priority(f"v{major}") < by_priority(f"v{older}{stage}{minor}")
    assert by_priority(f"v{major + 1}") < by_priority(f"v{major}")
    assert by_priority(f"v{major}{stage}{minor + 1}") < by_priority(f"v{major}{stage}{minor}")
    assert by_priority(f"v{major}beta{minor}") < by_priority(f"v{older}alpha{minor}")
