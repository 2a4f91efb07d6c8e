from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kind_support import Shelf, thing

from kapi.registry.kinds.core.service.allocators import (
    AllocationError,
    IPPool,
    NumberPool,
    PoolFullError,
    PortPool,
    ServicePools,
)


@given(st.integers(1, 60), st.integers(0, 60), st.lists(st.integers(0, 59)), st.integers())
def test_a_pool_hands_out_every_free_number_once_and_then_says_full(size, reserved, taken, seed):
    pool = NumberPool(size, min(reserved, size), rand=random.Random(seed))
    before = {number for number in taken if number < size}
    for number in before:
        assert pool.take(number)
    handed = [pool.take_any() for _ in range(size - len(before))]
    assert len(set(handed)) == len(handed)
    assert set(handed) | before == set(range(size))
    with pytest.raises(PoolFullError, match=r"^range is full$"):
        pool.take_any()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 19)), max_size=80), st.integers())
def test_a_number_is_free_exactly_when_it_was_given_back_after_it_was_taken(steps, seed):
    pool = NumberPool(20, 4, rand=random.Random(seed))
    model = set()
    for take, number in steps:
        if take:
            assert pool.take(number) is (number not in model)
            model.add(number)
        else:
            pool.give_back(number)
            model.discard(number)
    assert pool.taken == model


def test_chosen_numbers_come_from_the_upper_band_first():
    pool = NumberPool(100, 90)
    assert all(pool.take_any() >= 90 for _ in range(10))
    assert pool.take_any() < 90


def test_ip_pool_knows_its_range():
    pool = IPPool("10.0.0.0/24")
    assert pool.first == "10.0.0.1"
    assert pool.family == "IPv4"
    address = pool.take_any()
    assert address in pool
    assert int(address.rpartition(".")[2]) > 16
    pool.give_back(address)
    assert address not in pool


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("1.2.3.4", "the provided network does not match the current range"),
        ("fd00::1", "the provided network does not match the current range"),
        ("10.0.0.0", "the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24"),
        ("10.0.0.255", "the provided IP (10.0.0.255) is not in the valid range. The range of valid IPs is 10.0.0.0/24"),
        ("10.0.0.9", "provided IP is already allocated"),
    ],
)
def test_ip_pool_says_why_not(address, why):
    pool = IPPool("10.0.0.0/24")
    pool.take("10.0.0.9")
    with pytest.raises(AllocationError) as refused:
        pool.take(address)
    assert str(refused.value) == why


def test_small_ip_range_is_used_up_completely():
    pool = IPPool("10.0.0.0/29")
    assert {pool.take_any() for _ in range(6)} == {f"10.0.0.{number}" for number in range(1, 7)}
    with pytest.raises(PoolFullError):
        pool.take_any()


def test_ipv6_range_has_no_broadcast_address():
    pool = IPPool("fd00::/125")
    assert {pool.take_any() for _ in range(7)} == {f"fd00::{number}" for number in range(1, 8)}


def test_port_pool_says_why_not():
    pool = PortPool()
    pool.take(30080)
    with pytest.raises(AllocationError, match=r"^provided port is already allocated$"):
        pool.take(30080)
    with pytest.raises(AllocationError) as refused:
        pool.take(80)
    assert str(refused.value) == "provided port is not in the valid range. The range of valid ports is 30000-32767"
    assert pool.take_any() >= 30000 + 86
    pool.give_back(80)
    assert 80 not in pool


def _service(name, ip, *ports, **spec):
    return thing(name, spec={"clusterIP": ip, "clusterIPs": [ip], "ports": [{"nodePort": p} for p in ports], **spec})


def test_pools_start_from_what_is_stored():
    pools = ServicePools()
    stored = [
        _service("a", "10.0.0.5", 30001, 30002, healthCheckNodePort=30003),
        _service("headless", "None"),
        _service("stray", "192.168.0.1"),
        _service("twin", "10.0.0.5"),
    ]
    pools.ensure_loaded(Shelf(services=stored))
    assert {"10.0.0.1", "10.0.0.5"} == {ip for ip in (f"10.0.0.{n}" for n in range(1, 255)) if ip in pools.ips}
    assert all(port in pools.ports for port in (30001, 30002, 30003))


def test_forgetting_gives_back_everything_but_the_first_address():
    pools = ServicePools()
    pools.ensure_loaded(Shelf(services=[_service("kubernetes", "10.0.0.1"), _service("a", "10.0.0.5", 30001)]))
    pools.forget("default", "a")
    pools.forget("default", "kubernetes")
    pools.forget("default", "never-there")
    assert "10.0.0.5" not in pools.ips
    assert 30001 not in pools.ports
    assert "10.0.0.1" in pools.ips
