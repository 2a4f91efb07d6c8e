"""Addresses, networks and URLs: strict readers, against Python's where it is as strict."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.libraries.cidr import IMPLEMENTATIONS as CIDR
from kapi.schema.cel.libraries.cidr import Network, parse_network
from kapi.schema.cel.libraries.gourl import BadUrl, parse_reference, parse_request
from kapi.schema.cel.libraries.ip import IMPLEMENTATIONS as IP
from kapi.schema.cel.libraries.ip import strict_address
from kapi.schema.cel.values import EvaluationError, equal

ADDRESSES = st.ip_addresses()
ALMOST = st.text(alphabet="0123456789abcdef:.", max_size=20) | ADDRESSES.map(str)


def is_mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


@given(ADDRESSES)
def test_addresses_survive_being_read_and_written(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_mapped(address):
        with pytest.raises(EvaluationError, match="IPv4-mapped"):
            strict_address(str(address))
        return
    read = strict_address(str(address))
    assert str(read) == str(address)
    assert IP["ip_family"](read) == address.version
    assert IP["ip_is_loopback"](read) == address.is_loopback
    assert IP["ip_is_unspecified"](read) == address.is_unspecified
    assert IP["ip_is_link_local_unicast"](read) == address.is_link_local
    assert IP["ip_is_canonical"](str(address))


@given(ALMOST)
def test_what_python_refuses_is_refused(text: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        assert IP["is_ip"](text) is False
    else:
        assert IP["is_ip"](text) is not is_mapped(address)


@given(ADDRESSES, st.integers(0, 128), ADDRESSES)
def test_networks_contain_what_python_says(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    length: int,
    other: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    length %= address.max_prefixlen + 1
    if is_mapped(address) or is_mapped(other):
        return
    network = parse_network(f"{address}/{length}")
    expected = ipaddress.ip_network(f"{address}/{length}", strict=False)
    assert str(network) == f"{address}/{length}"
    assert str(network.masked()) == str(expected)
    assert CIDR["cidr_contains_ip_ip"](network, strict_address(str(other))) == (other in expected)
    assert CIDR["cidr_contains_ip_string"](network, str(address))
    assert CIDR["cidr_contains_cidr"](network, network.masked())
    assert CIDR["cidr_contains_cidr_string"](network, f"{address}/{address.max_prefixlen}")


def test_a_network_counts_in_costs_by_the_bytes_of_its_prefix() -> None:
    assert [parse_network(f"10.0.0.0/{length}").size for length in (0, 1, 8, 9, 32)] == [0, 1, 1, 2, 4]
    assert strict_address("::1").size == 16


def test_networks_are_equal_when_written_the_same_and_never_equal_a_text() -> None:
    assert equal(parse_network("10.0.0.0/8"), parse_network("10.0.0.0/8"))
    assert not equal(parse_network("10.0.0.1/8"), parse_network("10.0.0.0/8"))
    with pytest.raises(EvaluationError, match="no such overload"):
        equal(parse_network("10.0.0.0/8"), "10.0.0.0/8")
    assert not equal("10.0.0.0/8", parse_network("10.0.0.0/8"))
    assert isinstance(parse_network("::/0"), Network)


# -- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "name", "port", "path"),
    [
        ("http://a", "a", "a", "", ""),
        ("http://a:80/x", "a:80", "a", "80", "/x"),
        ("http://u:p@a:/x?q#f", "a:", "a", "", "/x"),
        ("http://[::1]:8/", "[::1]:8", "::1", "8", "/"),
        ("http://[fe80::1%25en0]/", "[fe80::1%en0]", "fe80::1%en0", "", "/"),
        ("mongodb://a:1,b:2/x", "a:1,b:2", "a:1,b", "2", "/x"),
        ("http://a/b%20c%2Fd", "a", "a", "", "/b%20c%2Fd"),
        ("http://a/b c\u00e9", "a", "a", "", "/b%20c%C3%A9"),
        ("http://a/!*'();[]", "a", "a", "", "/!*'();[]"),
        ("/only/path", "", "", "", "/only/path"),
        ("*", "", "", "", "*"),
        ("x:opaque", "", "", "", ""),
    ],
)
def test_parts_of_a_url(text: str, host: str, name: str, port: str, path: str) -> None:
    url = parse_reference(text)
    assert (url.host, url.hostname(), url.port(), url.escaped_path()) == (host, name, port, path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty url"),
        ("a", "invalid URI for request"),
        (":a", "missing protocol scheme"),
        ("http://a\n", "net/url: invalid control character in URL"),
        ("http://a b", 'invalid character " " in host name'),
        ("http://a:b", 'invalid port ":b" after host'),
        ("http://a:1:2", 'invalid port ":1:2" after host'),
        ("http://a/%", 'invalid URL escape "%"'),
        ("http://a/%g0", 'invalid URL escape "%g0"'),
        ("http://%41", 'invalid URL escape "%41"'),
        ("http://[::1", "missing ']' in host"),
        ("http://x[::1]", "invalid IP-literal"),
        ("http://[1.2.3.4]", "invalid IP-literal"),
        ("http://u<@a", "net/url: invalid userinfo"),
    ],
)
def test_what_is_no_request_is_refused_in_words(text: str, complaint: str) -> None:
    with pytest.raises(BadUrl) as failure:
        parse_request(text)
    assert str(failure.value).endswith(f": {complaint}")


@pytest.mark.parametrize(
    "text",
    [
        "http://a",
        "http://a/",
        "http://a?",
        "http://u:p%40@a/b?c=d#e",
        "x:y",
        "x:/y",
        "x:///y",
        "/a//b",
        "http://a/%41#%42",
    ],
)
def test_a_url_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_reference(text)) == text


def test_parameters_are_gathered_and_broken_ones_left_out() -> None:
    query = parse_reference("http://a?x=1&y=a+b%21&x=2&z&&bad=%g&semi;colon=1&%zz=1").parameters()
    assert query == {"x": ["1", "2"], "y": ["a b!"], "z": [""]}


@given(st.text(max_size=30), st.text(alphabet="http:/?#[]@%25a1.", max_size=30))
def test_reading_never_fails_in_another_way(text: str, odd: str) -> None:
    for one in (text, odd, f"http://{odd}", f"http://a/{text}"):
        try:
            url = parse_request(one)
        except BadUrl:
            continue
        assert isinstance(str(url), str)
        assert isinstance(url.parameters(), dict)
