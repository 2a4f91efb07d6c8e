"""Quantities, versions and named formats."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.libraries.namedformats import FORMATS
from kapi.schema.cel.libraries.namedformats import IMPLEMENTATIONS as NAMED
from kapi.schema.cel.libraries.quantity import IMPLEMENTATIONS as QUANTITY
from kapi.schema.cel.libraries.semver import IMPLEMENTATIONS as SEMVER
from kapi.schema.cel.libraries.semver import Version, compare_versions, parse_version
from kapi.schema.cel.values import NONE, EvaluationError, equal

quantity = QUANTITY["string_to_quantity"]

# -- quantities -------------------------------------------------------------------------------------------------------

AMOUNTS = st.tuples(st.integers(-(10**6), 10**6), st.sampled_from(["", "k", "m", "Ki", "e2"])).map(
    lambda two: f"{two[0]}{two[1]}"
)
UNITS = {"": Decimal(1), "k": Decimal(1000), "m": Decimal("0.001"), "Ki": Decimal(1024), "e2": Decimal(100)}


def amount(text: str) -> Decimal:
    digits = text.rstrip("kmKi").removesuffix("e2")
    return Decimal(digits) * UNITS[text[len(digits) :]]


@given(AMOUNTS, AMOUNTS)
def test_quantities_are_compared_and_added_exactly(left: str, right: str) -> None:
    one, two = quantity(left), quantity(right)
    assert equal(one, two) == (amount(left) == amount(right))
    assert QUANTITY["quantity_is_less_than"](one, two) == (amount(left) < amount(right))
    assert QUANTITY["quantity_is_greater_than"](one, two) == (amount(left) > amount(right))
    for overload, total in (
        ("quantity_add", amount(left) + amount(right)),
        ("quantity_sub", amount(left) - amount(right)),
    ):
        result = QUANTITY[overload](one, two)
        assert Decimal(result.quantity.mantissa).scaleb(result.quantity.exponent) == total
        assert QUANTITY["quantity_sign"](result) == (total > 0) - (total < 0)


@given(AMOUNTS, st.integers(-(2**40), 2**40))
def test_a_whole_number_can_be_added(text: str, number: int) -> None:
    total = QUANTITY["quantity_add_int"](quantity(text), number)
    assert equal(QUANTITY["quantity_sub_int"](total, number), quantity(text))


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1", 1),
        ("1k", 1000),
        ("1Ti", 2**40),
        ("-5", -5),
        ("1.5k", 1500),
        ("1500m", None),
        ("2000m", None),
        ("1Pi", None),
        ("10E", None),
        ("1.0", None),
    ],
)
def test_some_whole_quantities_are_not_called_so(text: str, whole: int | None) -> None:
    one = quantity(text)
    assert QUANTITY["quantity_is_integer"](one) is (whole is not None)
    if whole is None:
        with pytest.raises(EvaluationError, match="cannot convert value to integer"):
            QUANTITY["quantity_get_int"](one)
    else:
        assert QUANTITY["quantity_get_int"](one) == whole


def test_quantities_become_floats() -> None:
    assert QUANTITY["quantity_get_float"](quantity("1500m")) == 1.5
    assert QUANTITY["quantity_get_float"](quantity("1e999")) == float("inf")
    assert QUANTITY["is_quantity_string"]("1Zi") is False


# -- versions ---------------------------------------------------------------------------------------------------------

ORDERED = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
]


def test_versions_are_in_order() -> None:
    versions = [*map(parse_version, ORDERED)]
    for place, one in enumerate(versions):
        for other, two in enumerate(versions):
            assert compare_versions(one, two) == (place > other) - (place < other)


@given(st.tuples(*[st.integers(0, 2**64 - 1)] * 3))
def test_versions_survive_being_read_and_written(numbers: tuple[int, int, int]) -> None:
    text = str(Version(numbers, ("rc", 1), ("b", "5")))
    assert str(parse_version(text)) == text
    assert SEMVER["semver_major"](parse_version(text)) == (numbers[0] if numbers[0] < 2**63 else numbers[0] - 2**64)


@pytest.mark.parametrize(
    ("text", "normal"),
    [("v1.2.3", "1.2.3"), ("1", "1.0.0"), ("v1.02", "1.2.0"), ("1.2.03-rc", "1.2.3-rc"), ("00.0.0", "0.0.0")],
)
def test_loose_versions_can_be_made_proper(text: str, normal: str) -> None:
    assert str(SEMVER["string_bool_to_semver"](text, True)) == normal
    assert SEMVER["is_semver_string_bool"](text, False) is (text == normal)


def test_how_a_version_was_built_does_not_count() -> None:
    assert equal(parse_version("1.0.0+a"), parse_version("1.0.0+b"))


# -- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("dns1123Label", "a-b", "A"),
        ("dns1123Subdomain", "a.b", "a_b"),
        ("dns1035Label", "a1", "1a"),
        ("qualifiedName", "a.b/c", "a/b/c"),
        ("dns1123LabelPrefix", "a-", "-a"),
        ("dns1123SubdomainPrefix", "a.b-", "-"),
        ("dns1035LabelPrefix", "a-", "1-x-"),
        ("labelValue", "", "-"),
        ("uri", "/x", "x"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("byte", "YQ==", "?"),
        ("date", "2024-02-29", "2023-02-29"),
        ("datetime", "2024-02-29T00:00:00Z", "2024-02-29"),
    ],
)
def test_a_format_says_what_is_wrong_with_a_text(name: str, right: str, wrong: str) -> None:
    form = NAMED[f"format.{name}"]()
    assert NAMED["format-named"](name).value is form
    assert NAMED["format-validate"](form, right) is NONE
    complaints = NAMED["format-validate"](form, wrong)
    assert complaints.present
    assert all(isinstance(one, str) and one for one in complaints.value)


def test_formats_are_known_by_name() -> None:
    assert NAMED["format-named"]("nope") is NONE
    assert len(FORMATS) == 13
    assert equal(FORMATS["uuid"], FORMATS["uuid"])
    assert not equal(FORMATS["uuid"], FORMATS["uri"])
