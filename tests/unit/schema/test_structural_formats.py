import time

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.formats import SUPPORTED, VALIDATORS, normalized
from kapi.schema.structural.model import Schema

UUID = "a1b2c3d4-1234-{}234-{}234-123456789abc"

# What Go's standard library, and the validators on top of it that kube-apiserver uses, return for each text.
GOOD = {
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"],
    "uri": [
        "http://foo.bar/#com",
        "http://user:p@ss@h:80/a%20b?q#x",
        "mailto:a@b",
        "/abs",
        "*",
        "//x",
        "x:",
        "x:%zz",
        "http:///x",
        "http://é.com/",
        "http://a%25b/",
        "http://a%C3%A9/",
        "http://[::1]",
        "http://[::ffff:1.2.3.4]:",
        "http://[fe80::1%25en0]:80/",
        "http://[fe80::1%25%41]/",
        "http://[fe80::1%25e%20n]",
        "mongodb://a:1,b:2/x",
        "ftp://a:1:2/",
        "/a?%zz",
    ],
    "email": [
        "a@b",
        "Bob <a@b>",
        '"q q"@b',
        '"a\\"b"@c',
        "a@[1.2.3.4]",
        "a@[::1]",
        "g: a@b;",
        "g : a@b ;",
        "a@b (c)",
        "a@b (c (d\\)))",
        "=?utf-8?q?a?= <a@b>",
        "x =?koi8?q?a?= <a@b>",
        "=?koi8?q?=zz?= <a@b>",
        "é@é",
        "a.b.c <x@y>",
        " a@b ",
        "<a@b>",
        "a b <c@d> (e)",
        "a(c) b <x@y>",
        "a@ b",
    ],
    "hostname": [
        "a",
        "a-b",
        "a-",
        "my.host",
        "a.b-c.com",
        "☃.com",
        "é.fr",
        "9a.io",
        "x" * 63 + ".com",
        "a" * 63,
        "$.io",
    ],
    "ipv4": ["1.2.3.4", "01.002.3.4", "0000000001.2.3.4", "::ffff:1.2.3.4", "::00001.2.3.4", "1:2:3:4:5:6:7.8.9.1"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4"],
    "cidr": ["1.2.3.4/24", "01.2.3.4/8", "1.2.3.4/024", "::/0", "::1/128", "::00001/64", "::1.2.3.4/1"],
    "mac": [
        "01:23:45:67:89:ab",
        "01-23-45-67-89-AB",
        "0123.4567.89ab",
        "01:23:45:67:89:ab:cd:ef",
        "0123.4567.89ab.cdef",
        "00:" * 19 + "00",
        "0000." * 9 + "0000",
    ],
    "uuid": [UUID.format(3, 8), UUID.format(3, 8).upper().replace("-", ""), UUID.format("f", "f")],
    "uuid3": [UUID.format(3, 8), UUID.format(3, "f")],
    "uuid4": [UUID.format(4, 8), UUID.format(4, "B")],
    "uuid5": [UUID.format(5, 9)],
    "isbn": ["3836221195", "978-4-87311-368-5"],
    "isbn10": ["3836221195", "1-61729-085-8", "3 401 01319 X"],
    "isbn13": ["9784873113685", "978-4-87311-368-5", "978 3401013190"],
    "creditcard": [
        "4220 8554 2622 2389",
        "374953669708156",
        "6011464355444102",
        "5139288802098206",
        "x3548209662790989y",
    ],
    "ssn": ["191-60-2869", "191 60 2869"],
    "hexcolor": ["#fff", "ffffff", "#FFf"],
    "rgbcolor": ["rgb(0,31,255)", "rgb( 1 , 2 ,3 )", "rgb(100,199,249)"],
    "byte": ["YWJj", "YQ==", "YWI=", "a+/="],
    "password": ["", "anything"],
    "date": ["2020-02-29", "2000-02-29", "0000-02-29"],
    "duration": [
        "1h30m",
        "0",
        "-0",
        "+5s",
        "-1.5h",
        ".5s",
        "1.h",
        "1\u03bcs",
        "1 \u00b5s",
        "2 weeks",
        "3 Days",
        "foo 5 minutes",
        "7 nanos",
        "2hr",
        "5wk",
        "9999999999999h",
        "1.99999999999999999999s",
        "00000000000000000000001s",
        "9223372036854775807ns",
    ],
    "date-time": [
        "2020-01-01T10:00:00Z",
        "2020-01-01t10:00:00z",
        "2020-01-01T10:00:00.123+01:00",
        "2020-01-01T10:00:00,5Z",
        "2020-01-01T10:00:00+99:99",
        "2020-01-01T10:00:00ZTfoo",
    ],
    "k8s-short-name": ["a", "1", "a-b", "a" * 63],
    "k8s-long-name": ["a", "a.b", "a-b.c", "a" * 253, "a." + "b" * 100],
}

BAD = {
    "bsonobjectid": ["", "507f1f77bcf86cd79943901g", "507f1f77bcf86cd7994390"],
    "uri": [
        "",
        "?",
        "rel/path",
        ":x",
        "/%zz",
        "/a\x7f",
        "1http://x",
        "http://foo#frag",
        "http://a b/",
        "http://h:8080x/",
        "http://a:1:2/",
        "http://u%zz@h/",
        "http://[1.2.3.4]/",
        "http://[::1",
        "http://x[::1]/",
        "http://a%41/",
        "http://[fe80::1%25]/",
        "http://[fe80::1%25%0a]/",
    ],
    "email": [
        "",
        "a",
        '""@b',
        "g: a@b, c@d;",
        "g:;",
        "a@b(x",
        "=?koi8?q?a?= <a@b>",
        "=?utf-8?q??= <a@b>",
        "=?utf-8?q?a?= (c) <a@b>",
        "a@b (=?koi8?b?YQ==?=)",
        "a..b@c",
        ".a@b",
        "a@b.",
        "a@b@c",
        "(c) a@b",
        "a @b",
        "a@b,",
        "a@[01.2.3.4]",
        "a@[]",
        "Bob <a@b",
    ],
    "hostname": [
        "",
        "a-b-c",
        "x.c",
        "a_b",
        "-a",
        "1.2.3.4",
        "a..b",
        "a.b.",
        "-a.com",
        "a-.com",
        "x" * 64 + ".com",
        "a" * 64,
        "é" * 32,
    ],
    "ipv4": ["", "1.2.3", "256.1.1.1", "1.2.3.4.5", "::1", "1.2.3.4 ", "1.2.3.4::", "::1.2.3.4:5", "\u0661.2.3.4"],
    "ipv6": [
        "",
        "1.2.3.4",
        "1:2",
        ":::",
        ":1::",
        "1::2::3",
        "12345::",
        "::00001",
        "fe80::1%eth0",
        "::ffff:01.2.3.4",
        "1::2:3:4:5:6:7:8",
    ],
    "cidr": ["", "/8", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::1/129", "1.2.3.4/-1"],
    "mac": ["", "01:23:45", "01-23-45:67-89-AB", "0123.4567.89a", "01:23:45:67:89:ag"],
    "uuid": ["", UUID.format(3, 8)[:-1], "g" + UUID.format(3, 8)[1:]],
    "uuid3": [UUID.format(4, 8)],
    "uuid4": [UUID.format(3, 8), UUID.format(4, 7)],
    "uuid5": [UUID.format(5, "c")],
    "isbn": ["", "x", "3836221196"],
    "isbn10": ["9784873113685", "3423214121"],
    "isbn13": ["3836221195", "9784873113686"],
    "creditcard": ["", "4220855426222388", "422085542622238", "2204151414444676"],
    "ssn": ["191602869", "191-602869", "00-90-8787"],
    "hexcolor": ["", "#ff", "fff0", "#ff12FG"],
    "rgbcolor": ["rgb(256,0,0)", "rgb(01,1,1)", "rgba(0,31,255)"],
    "byte": ["", "YQ=", "YQ==YQ==", "YWJj\n", "YW-_"],
    "date": [
        "",
        "2021-02-29",
        "1900-02-29",
        "2020-13-01",
        "2020-00-10",
        "2020-04-31",
        "2020-1-01",
        "20200-01-01",
        "2020-01-01 ",
    ],
    "duration": [
        "",
        "5",
        "5x",
        "5 monts",
        "h",
        "1 hrs",
        "5wks",
        "99999999999999999999s",
        "9223372036854775808ns",
        "1x 99999999999999999999s",
    ],
    "date-time": [
        "",
        "2020-01-01",
        "2020-01-01 10:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T10:00:60Z",
        "2020-01-01T10:00:00",
        "2020-02-30T10:00:00Z",
    ],
    "k8s-short-name": ["", "A", "-a", "a-", "a.b", "a" * 64],
    "k8s-long-name": ["", "a..b", "...", "A.b", "a.-b", "a" * 254],
}


def rows(table):
    return [
        pytest.param(name, text, id=f"{name}-{index}")
        for name, texts in table.items()
        for index, text in enumerate(texts)
    ]


@pytest.mark.parametrize(("name", "text"), rows(GOOD))
def test_a_text_of_the_format_passes(name, text):
    assert VALIDATORS[normalized(name)](text)


@pytest.mark.parametrize(("name", "text"), rows(BAD))
def test_a_text_of_another_shape_does_not_pass(name, text):
    assert not VALIDATORS[normalized(name)](text)


def test_every_format_has_an_example():
    assert {normalized(name) for name in GOOD} == SUPPORTED
    assert {normalized(name) for name in BAD} | {"password"} == SUPPORTED


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Schema(type="string", format="date-time"), "date-time"),
        (Schema(type="string", format="d-ate"), "d-ate"),
        (Schema(type="string", format="no-such"), ""),
        (Schema(type="string", format="int32"), ""),
        (Schema(format="date"), "date"),
        (Schema(int_or_string=True, format="date"), "date"),
        (Schema(type="integer", format="int64"), "int64"),
        (Schema(type="integer", format="float"), ""),
        (Schema(type="number", format="double"), "double"),
        (Schema(type="object", format="date"), ""),
        (Schema(type="array", format="byte"), ""),
    ],
)
def test_a_format_counts_only_where_it_is_known(schema, expected):
    assert schema.supported_format == expected


@given(st.sampled_from(sorted(SUPPORTED)), st.text())
def test_any_text_gets_an_answer(name, text):
    assert VALIDATORS[name](text) in {True, False}


@given(st.lists(st.from_regex(r"[a-z0-9-]{1,5}", fullmatch=True), min_size=1, max_size=3).map(".".join))
def test_a_long_name_is_what_its_pattern_matches(text):
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert VALIDATORS["k8slongname"](text) == (re2.fullmatch(rf"{label}(\.{label})*", text) is not None)


@pytest.mark.parametrize("name", sorted(SUPPORTED))
@pytest.mark.parametrize(
    "text", ["1" * 100_000, "a." * 50_000, "(" * 100_000, "::" * 50_000, '"\\' * 50_000, "a@" * 50_000]
)
def test_long_texts_are_validated_in_linear_time(name, text):
    # Eight times the text takes a linear validator eight times as long, and a quadratic one sixty-four times.
    assert processor_seconds(name, text) <= 24 * processor_seconds(name, text[: len(text) // 8]) + 0.01


def processor_seconds(name, text):
    """Return the least processor time of three validations, which other processes do not change."""
    times = []
    for _ in range(3):
        began = time.process_time()
        VALIDATORS[name](text)
        times.append(time.process_time() - began)
    return min(times)
