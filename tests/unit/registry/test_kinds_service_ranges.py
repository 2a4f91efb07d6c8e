from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.registry.kinds.core.service.ranges import (
    AddressRange,
    AllocationError,
    check_port,
    offsets,
    port_candidates,
)


@given(st.integers(0, 60), st.integers(0, 60), st.integers())
def test_every_number_is_tried_once_and_the_reserved_ones_last(size, reserved, seed):
    reserved = min(reserved, size)
    tried = list(offsets(size, reserved, random.Random(seed)))
    assert sorted(tried) == list(range(size))
    assert sorted(tried[size - reserved :]) == list(range(reserved))


def test_a_range_knows_its_first_address_and_family():
    range_ = AddressRange("10.0.0.0/24")
    assert range_.first == "10.0.0.1"
    assert range_.family == "IPv4"
    assert int(next(range_.candidates()).rpartition(".")[2]) > 15


@pytest.mark.parametrize("address", ["1.2.3.4", "fd00::1", "10.0.0.0", "10.0.0.255"])
def test_the_network_and_broadcast_addresses_are_not_in_the_range(address):
    assert address not in AddressRange("10.0.0.0/24")


def test_a_small_range_is_used_completely():
    assert set(AddressRange("10.0.0.0/29").candidates()) == {f"10.0.0.{number}" for number in range(1, 7)}


def test_an_ipv6_range_has_no_broadcast_address():
    assert set(AddressRange("fd00::/125").candidates()) == {f"fd00::{number}" for number in range(1, 8)}


@pytest.mark.parametrize("cidr", ["10.0.0.0/32", "10.0.0.0/31"])
def test_a_range_without_usable_addresses_has_no_candidates(cidr):
    assert list(AddressRange(cidr).candidates()) == []


def test_a_large_ipv6_range_is_not_walked_to_find_one_address():
    range_ = AddressRange("fd00::/64")
    assert next(range_.candidates()) in range_


def test_node_ports_are_chosen_above_the_part_left_to_clients():
    assert next(port_candidates()) >= 30000 + 86
    assert sorted(port_candidates()) == list(range(30000, 32768))


def test_a_port_outside_of_the_range_is_refused():
    check_port(30000)
    with pytest.raises(AllocationError) as refused:
        check_port(80)
    assert str(refused.value) == "provided port is not in the valid range. The range of valid ports is 30000-32767"
