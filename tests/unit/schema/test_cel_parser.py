"""Text to trees: literals, precedence, brackets, limits, and what is said about text that is no expression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from cel_accepted_samples import ACCEPTED
from cel_refused_samples import OPERANDS, REFUSED
from cel_trees import nodes, show
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.syntax.ast import Expr, Literal
from kapi.schema.cel.syntax.lexer import END, tokenize
from kapi.schema.cel.syntax.parser import DEEPEST, LONGEST, SyntaxErrors, parse

if TYPE_CHECKING:
    import random

SAMPLES = [source for source, _ in (*ACCEPTED, *REFUSED)]


def literal(source: str) -> Literal:
    tree = parse(source)
    assert isinstance(tree, Literal)
    return tree


def outcome(source: str) -> Expr | str:
    """The tree, or what is wrong."""
    try:
        return parse(source)
    except SyntaxErrors as errors:
        return str(errors)


def complaint(source: str) -> str:
    with pytest.raises(SyntaxErrors) as caught:
        parse(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "type_", "value"),
    [
        ("null", "null_type", None),
        ("true", "bool", True),
        ("false", "bool", False),
        ("0", "int", 0),
        ("-7", "int", -7),
        ("- 7", "int", -7),
        ("0x1F", "int", 31),
        ("-0x10", "int", -16),
        ("00012", "int", 12),
        ("9223372036854775807", "int", 2**63 - 1),
        ("-9223372036854775808", "int", -(2**63)),
        ("5u", "uint", 5),
        ("0xFFU", "uint", 255),
        ("18446744073709551615u", "uint", 2**64 - 1),
        ("1.5", "double", 1.5),
        (".25", "double", 0.25),
        ("-2.5e-3", "double", -0.0025),
        ("1E3", "double", 1000.0),
        ("'a'", "string", "a"),
        ('"it\'s"', "string", "it's"),
        (r"'\a\b\f\n\r\t\v\\\'\"\?\`'", "string", "\a\b\f\n\r\t\v\\'\"?`"),
        (r"'\x41\u00e9\U0001F600\101\377'", "string", "Aé😀A\xff"),
        (r"r'\d+'", "string", r"\d+"),
        (r'R"\"', "string", "\\"),
        ("'''a'b\nc'''", "string", "a'b\nc"),
        ("'''a\r\nb\rc'''", "string", "a\nb\nc"),
        ('r"""\\n"""', "string", "\\n"),
        ('""', "string", ""),
        ("''''''", "string", ""),
        ("b'abc'", "bytes", b"abc"),
        (r"b'\xff\101é'", "bytes", b"\xffA\xc3\xa9"),
        (r"B'\n'", "bytes", b"\n"),
        (r"br'\xff'", "bytes", rb"\xff"),
        ('b"""\n"""', "bytes", b"\n"),
    ],
)
def test_literals_have_the_values_and_types_they_spell(source: str, type_: str, value: object) -> None:
    tree = literal(source)
    assert (tree.type.name, tree.value) == (type_, value)
    assert type(tree.value) is type(value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("9223372036854775808", "invalid int literal"),
        ("-9223372036854775809", "invalid int literal"),
        ("9" * 5000, "invalid int literal"),
        ("18446744073709551616u", "invalid uint literal"),
        ("1e400", "invalid double literal"),
        (r"'\ud800'", "invalid unicode code point"),
        (r"'\U00110000'", "invalid unicode code point"),
        (r"b'\u0041'", "unable to unescape string"),
        ("if", "reserved identifier: if"),
        ("while(1)", "reserved identifier: while"),
        ("a.`b`", "unsupported syntax: '`'"),
    ],
)
def test_well_formed_text_without_meaning_is_refused(source: str, message: str) -> None:
    assert complaint(source).splitlines()[0].endswith(f": {message}")


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("1 + 2 * 3", "_+_(1, _*_(2, 3))"),
        ("1 * 2 + 3", "_+_(_*_(1, 2), 3)"),
        ("1 - 2 - 3", "_-_(_-_(1, 2), 3)"),
        ("1 - (2 - 3)", "_-_(1, _-_(2, 3))"),
        ("1 / 2 % 3", "_%_(_/_(1, 2), 3)"),
        ("1 + 2 < 3 * 4", "_<_(_+_(1, 2), _*_(3, 4))"),
        ("1 < 2 == true", "_==_(_<_(1, 2), True)"),
        ("a in b == c", "_==_(@in(a, b), c)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b || c", "_||_(_&&_(a, b), c)"),
        ("a && b && c", "_&&_(_&&_(a, b), c)"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a || b || c || d || e", "_||_(_||_(_||_(a, b), c), _||_(d, e))"),
        ("!a && !b", "_&&_(!_(a), !_(b))"),
        ("!!a", "a"),
        ("!!!a", "!_(a)"),
        ("--a", "a"),
        ("-a", "-_(a)"),
        ("--1", "1"),
        ("---1", "-_(1)"),
        ("1--1", "_-_(1, -1)"),
        ("1 - 1", "_-_(1, 1)"),
        ("!-1", "!_(-1)"),
        ("-1.a", "-1.a"),
        ("-a.b", "-_(a.b)"),
        ("!a.b(c)", "!_(a.b(c))"),
        ("-(1)", "-_(1)"),
        ("a ? b : c", "_?_:_(a, b, c)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("(a ? b : c) ? d : e", "_?_:_(_?_:_(a, b, c), d, e)"),
        ("a || b ? c && d : e || f", "_?_:_(_||_(a, b), _&&_(c, d), _||_(e, f))"),
        ("{a ? b : c: d ? e : f}", "{_?_:_(a, b, c): _?_:_(d, e, f)}"),
        ("a[b ? c : d]", "_[_](a, _?_:_(b, c, d))"),
        ("a.b.c", "a.b.c"),
        ("a.b(1).c[2].d()", "_[_](a.b(1).c, 2).d()"),
        (".a.b", ".a.b"),
        (".f(1)", ".f(1)"),
        ("f()", "f()"),
        ("f(1, g(2), [3])", "f(1, g(2), [3])"),
        ("a.?b.c", "_?._(a, 'b').c"),
        ("a[?b][c]", "_[_](_[?_](a, b), c)"),
        ("[?a, b, ?c]", "[?a, b, ?c]"),
        ("{?a: b, c: d}", "{?a: b, c: d}"),
        ("[1, 2,]", "[1, 2]"),
        ("{1: 2,}", "{1: 2}"),
        ("[,]", "[]"),
        ("{,}", "{}"),
        ("a{}", "a{}"),
        ("a.b.C{x: 1, y: [2],}", "a.b.C{x: 1, y: [2]}"),
        (".a{x: 1}.y", ".a{x: 1}.y"),
        ("[{}][0]", "_[_]([{}], 0)"),
        ("((a))", "a"),
        ("a // and so on\n + b", "_+_(a, b)"),
        ("a.namespace.for", "a.namespace.for"),
    ],
)
def test_operators_bind_as_the_grammar_says(source: str, tree: str) -> None:
    assert show(parse(source)) == tree


@pytest.mark.parametrize(
    ("source", "offset"),
    [
        ("a + b", 2),
        ("a.b", 1),
        ("a.?b", 1),
        ("f(x)", 1),
        ("a.f(x)", 3),
        ("a [b]", 2),
        ("a ? b : c", 2),
        (" [1]", 1),
        (" {1: 2}", 1),
        ("a{b: c}", 1),
        ("!a", 0),
        (" -1", 1),
        (" .a", 2),
        ("a && b && c", 7),
        ("has(a.b)", 3),
        ("a.all(x, y)", 5),
    ],
)
def test_nodes_stand_where_their_sign_stands(source: str, offset: int) -> None:
    assert parse(source).offset == offset


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("1 +", f"ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {OPERANDS}\n | 1 +\n | ...^"),
        ("(1 2)", "ERROR: <input>:1:4: Syntax error: extraneous input '2' expecting ')'\n | (1 2)\n | ...^"),
        (
            "a\n  && b c\n",
            "ERROR: <input>:2:8: Syntax error: extraneous input 'c' expecting <EOF>\n |   && b c\n | .......^",
        ),
        (
            "'世' b",
            "ERROR: <input>:1:5: Syntax error: extraneous input 'b' expecting <EOF>\n | '世' b\n | .\uff0e..^",
        ),
        ("\t#", "ERROR: <input>:1:2: Syntax error: token recognition error at: '#'\n |  #\n | .^"),
        ("1 é", "ERROR: <input>:1:3: Syntax error: token recognition error at: 'é'\n | 1 é\n | ..\uff3e"),
    ],
)
def test_an_issue_shows_its_line_and_a_caret(source: str, text: str) -> None:
    assert complaint(source).startswith(text)


def test_issues_are_shown_in_the_order_of_the_source() -> None:
    lines = [line for line in complaint("[1].all(2, if) ; a b").splitlines() if line.startswith("ERROR")]
    assert [line.split(": ")[1].split(":")[-1] for line in lines] == ["9", "12", "16", "18"]


def test_a_line_that_is_too_long_is_not_shown() -> None:
    assert complaint(f"{'a' * 20_000} b").splitlines() == [
        "ERROR: <input>:1:20002: Syntax error: extraneous input 'b' expecting <EOF>"
    ]


def test_no_more_than_a_hundred_issues_are_shown() -> None:
    lines = complaint("#" * 500).splitlines()
    assert len([line for line in lines if line.startswith("ERROR")]) == 100
    assert lines[-1].endswith("more errors were truncated")


def test_an_expression_may_be_no_longer_than_the_limit() -> None:
    assert show(parse(f"'{'a' * (LONGEST - 2)}'")) == repr("a" * (LONGEST - 2))
    message = f"expression code point size exceeds limit: size: {LONGEST + 1}, limit {LONGEST}"
    assert complaint("1" * (LONGEST + 1)) == f"ERROR: <input>:-1:0: {message}"


NESTING = f"ERROR: <input>:-1:0: expression recursion limit exceeded: {DEEPEST}"
DEPTH = "ERROR: <input>:-1:0: max recursion depth exceeded"


@pytest.mark.parametrize(
    ("lead", "core", "tail", "most", "message"),
    [
        ("(", "1", ")", DEEPEST - 1, NESTING),
        ("[", "1", "]", DEEPEST - 1, NESTING),
        ("dyn(", "1", ")", DEEPEST - 1, NESTING),
        ("a ? b : ", "c", "", DEEPEST - 1, NESTING),
        ("1 + (", "1", ")", DEEPEST // 2 - 1, NESTING),
        ("1 == (", "1", ")", DEEPEST // 2 - 1, NESTING),
        ("1 + 1 * (", "1", ")", DEEPEST // 3, NESTING),
        ("", "a", ".b", DEEPEST, DEPTH),
        ("", "a", "[0]", DEEPEST, DEPTH),
        ("", "a", " + 1", DEEPEST, DEPTH),
        ("", "a", " < 1", DEEPEST, DEPTH),
        ("", "a", ".f()", DEEPEST, DEPTH),
    ],
)
def test_nesting_is_limited(lead: str, core: str, tail: str, most: int, message: str) -> None:
    parse(lead * most + core + tail * most)
    assert complaint(lead * (most + 1) + core + tail * (most + 1)) == message


@pytest.mark.parametrize("sign", ["&&", "||"])
def test_long_chains_of_logic_make_shallow_trees(sign: str) -> None:
    tree = parse(f" {sign} ".join(["a"] * 5000))

    def depth(expr: Expr) -> int:
        return 1 + max(map(depth, getattr(expr, "args", [])), default=0)

    assert depth(tree) == math.ceil(math.log2(5000)) + 1


def test_signs_without_end_are_read() -> None:
    assert show(parse("!" * 50_000 + "a")) == "a"
    assert show(parse("-" * 50_001 + "a")) == "-_(a)"


def test_a_macro_that_repeats_its_receiver_cannot_grow_without_limit() -> None:
    assert "too large after the expansion of macros" in complaint("a" + ".optMap(x, x)" * 45)


@given(st.text(max_size=200))
def test_any_text_parses_or_is_a_syntax_error(source: str) -> None:
    found = outcome(source)
    assert not isinstance(found, str) or found.startswith("ERROR: <input>:")


@given(st.text(alphabet="ab1.5u ()[]{}?:,!-+*/%<>=&|'\"\\`rnx\n", max_size=60))
def test_any_text_of_the_alphabet_of_the_language_parses_or_is_a_syntax_error(source: str) -> None:
    found = outcome(source)
    if isinstance(found, str):
        assert found.startswith("ERROR: <input>:")
    else:
        ids = [node.id for node in nodes(found)]
        assert len(ids) == len(set(ids))
        assert all(0 <= node.offset <= len(source) for node in nodes(found))


@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False))
def test_damaged_expressions_parse_or_are_syntax_errors(source: str, chance: random.Random) -> None:
    tokens = [token.text for token in tokenize(source)[0] if token.kind != END]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(tokens) + 1)
        tokens[at : at + chance.randint(0, 2)] = chance.choice(SAMPLES).split()[: chance.randint(0, 2)]
    found = outcome(" ".join(tokens))
    assert not isinstance(found, str) or found.startswith("ERROR: <input>:")


@given(st.text(max_size=20))
def test_every_string_can_be_quoted(value: str) -> None:
    escaped = "".join(f"\\U{ord(character):08x}" for character in value)
    assert literal(f"'{escaped}'").value == value


@given(st.binary(max_size=20))
def test_every_byte_can_be_written(value: bytes) -> None:
    assert literal("b'" + "".join(f"\\x{byte:02x}" for byte in value) + "'").value == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_integer_is_read_back(value: int) -> None:
    assert literal(str(value)).value == value
    assert literal(f"-0x{-value:x}" if value < 0 else f"0x{value:x}").value == value
