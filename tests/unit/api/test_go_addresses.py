import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.go.addresses import (
    BadAddress,
    parse_addr,
    parse_cidr_sloppy,
    parse_ip,
    parse_ip_sloppy,
    parse_prefix,
)


@pytest.mark.parametrize(
    ("text", "strict", "sloppy"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.1"),
        ("010.000.0.01", None, "10.0.0.1"),
        ("00000000010.0.0.1", None, "10.0.0.1"),
        ("256.0.0.1", None, None),
        ("10.0.0", None, None),
        ("2001:db8::1", "2001:db8::1", "2001:db8::1"),
        ("2001:0db8::00001", None, "2001:db8::1"),
        ("::ffff:010.0.0.1", None, "::ffff:a00:1"),
        ("fe80::1%eth0", None, None),
        ("", None, None),
    ],
)
def test_leading_zeros_are_read_by_the_sloppy_reader_only(text, strict, sloppy):
    assert parse_ip(text) == (strict and ipaddress.ip_address(strict))
    assert parse_ip_sloppy(text) == (sloppy and ipaddress.ip_address(sloppy))


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("010.1.2.3/08", "10.0.0.0/8"),
        ("2001:db8::1/32", "2001:db8::/32"),
        ("10.0.0.0/33", None),
        ("10.0.0.0/", None),
        ("10.0.0.0/+8", None),
        ("10.0.0.0", None),
        ("10.0.0.0/8/8", None),
    ],
)
def test_ranges_are_read_without_their_host_bits(text, network):
    assert parse_cidr_sloppy(text) == (network and ipaddress.ip_network(network))


@given(st.ip_addresses())
def test_every_reader_agrees_on_canonical_addresses(address):
    assert parse_ip(str(address)) == parse_ip_sloppy(str(address)) == address
    read = parse_addr(str(address))
    assert (read.number, read.bits) == (int(address), address.max_prefixlen)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.0", "no '/'"),
        ("fe80::1%eth0/64", "IPv6 zones cannot be present in a prefix"),
        ("10.0.0.0/08", 'bad bits after slash: "08"'),
        ("10.0.0.0/33", "prefix length out of range"),
        ("10.0.0.01/8", 'ParseAddr("10.0.0.01"): IPv4 field has octet with leading zero'),
    ],
)
def test_an_invalid_prefix_has_a_reason(text, message):
    with pytest.raises(BadAddress) as caught:
        parse_prefix(text)
    assert str(caught.value) == message
