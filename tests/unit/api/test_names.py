import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api import names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
    "'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("name", ["a", "a-b", "0.1", "a.b-c.d", "a" * 253])
def test_subdomains_are_accepted(name):
    assert names.dns_subdomain(name) == []


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a_b", "a/b", "é", "a\n"])
def test_an_invalid_subdomain_error_names_the_pattern(name):
    assert names.dns_subdomain(name) == [SUBDOMAIN]


def test_length_is_checked_before_the_pattern():
    assert names.dns_subdomain("A" * 254) == ["must be no more than 253 characters", SUBDOMAIN]


def test_lengths_count_bytes():
    assert names.label_value("é" * 32)[0] == "must be no more than 63 bytes"
    assert names.byte_length("é" * 32) == 64


def test_a_generate_name_prefix_may_end_in_a_dash():
    assert names.dns_subdomain("web-", prefix=True) == []
    assert names.dns_label("web-", prefix=True) == []
    assert names.dns1035_label("web-", prefix=True) == []
    assert names.dns_subdomain("web--", prefix=True) == []
    assert names.dns_subdomain("-", prefix=True) == [SUBDOMAIN]
    assert names.dns_subdomain("é-", prefix=True) == [SUBDOMAIN]


def test_a_label_has_no_dots():
    assert names.dns_label("a.b") == ["must not contain dots"]
    assert names.dns_label("A") == [LABEL]
    assert names.dns_label("a" * 64) == ["must be no more than 63 characters"]


def test_a_1035_label_starts_with_a_letter():
    assert names.dns1035_label("a1") == []
    assert names.dns1035_label("1a")[0].startswith("a DNS-1035 label must consist of lower case")


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("system:node", []),
        ("A", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_path_segments(name, sentences):
    assert names.path_segment(name) == sentences


def test_a_path_segment_prefix_may_be_dots():
    assert names.path_segment("..", prefix=True) == []


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("app", []),
        ("example.com/App_1.x", []),
        ("", ["name part must be non-empty", f"name part {KEY}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/b", [f"prefix part {SUBDOMAIN}"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("-a", [f"name part {KEY}"]),
        (
            "a/b/c",
            [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_qualified_names(name, sentences):
    assert names.qualified_name(name) == sentences


def test_label_values_may_be_empty():
    assert names.label_value("") == []
    assert names.label_value("a.b_c-d") == []
    assert names.label_value("-x")[0].startswith("a valid label must be an empty string or consist of alphanumeric")


def test_config_map_keys_are_file_names():
    assert names.config_map_key("a.b_C-1") == []
    assert names.config_map_key("..") == ["must not be '..'"]
    assert names.config_map_key("..a") == ["must not start with '..'"]
    assert names.config_map_key("a/b")[0].startswith("a valid config key must consist of alphanumeric characters")


def test_environment_variables_are_printable_ascii_without_equals():
    assert names.env_var_name("a b-1.é"[:-1]) == []
    assert names.env_var_name("") == ["environment variable name must be non-empty"]
    refusal = ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    assert names.env_var_name("a=b") == refusal
    assert names.env_var_name("é") == refusal


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("http-2", []),
        ("1" * 16, ["must be no more than 15 characters", "must contain at least one letter (a-z)"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        ("a_b", ["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"]),
    ],
)
def test_port_names(name, sentences):
    assert names.port_name(name) == sentences


def test_wildcards_stand_alone_at_the_front():
    assert names.wildcard_dns("*.example.com") == []
    assert names.wildcard_dns("*.*.com")
    assert names.wildcard_dns("example.com")


def test_fully_qualified_names_have_three_segments():
    assert names.fully_qualified_name("a.b.c") == []
    assert names.fully_qualified_name("a.b") == ["should be a domain with at least three segments separated by dots"]
    assert names.fully_qualified_name("A" * 254) == [f"must be no more than 253 characters,{SUBDOMAIN}"]


def test_errors_of_domain_prefixed_paths_name_the_invalid_part():
    assert names.domain_prefixed_path("f", "acme.io/foo/bar") == []
    assert [str(error) for error in names.domain_prefixed_path("f", "")] == ["f: Required value"]
    assert [str(error) for error in names.domain_prefixed_path("f", "acme")] == [
        'f: Invalid value: "acme": must be a domain-prefixed path (such as "acme.io/foo")'
    ]
    assert [str(error) for error in names.domain_prefixed_path("f", "A/é")] == [
        f'f: Invalid value: "A": {SUBDOMAIN}',
        "f: Invalid value: \"é\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
    ]


def test_numbers_have_ranges():
    assert names.port_number(65535) == []
    assert names.port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert names.user_id(-1) == ["must be between 0 and 2147483647, inclusive"]
    assert names.group_id(2**31) == ["must be between 0 and 2147483647, inclusive"]


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        ("10.9.8.7", []),
        ("2001:db8::1", []),
        ("10.9.8.07", ["must not have leading 0s"]),
        ("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
        ("1.2.3", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
        ("fe80::1%eth0", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
    ],
)
def test_addresses(value, sentences):
    assert names.ip(value) == sentences


def test_new_address_fields_want_the_canonical_spelling():
    assert names.ip("2001:DB8::1") == []
    assert names.ip("2001:DB8::1", canonical=True) == ['must be in canonical form ("2001:db8::1")']
    assert names.cidr("2001:0db8::/32", canonical=True) == ['must be in canonical form ("2001:db8::/32")']


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        ("10.0.0.0/8", []),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.4/128", ["must not have an IPv4-mapped IPv6 address"]),
        ("10.0.0.0/33", ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ("10.0.0.0", ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
    ],
)
def test_address_ranges(value, sentences):
    assert names.cidr(value) == sentences


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,80}[a-z0-9])?-", fullmatch=True), st.randoms())
def test_generated_names_extend_the_base_and_stay_labels(base, rand):
    name = names.generate_name(base, rand)
    assert len(name) == min(len(base), 58) + 5
    assert name[:-5] == base[:58]
    assert set(name[-5:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert names.dns_label(name) == []


def test_generated_names_cut_bytes_not_characters():
    name = names.generate_name("é" * 40, random.Random(1))
    assert names.byte_length(name) == 63
