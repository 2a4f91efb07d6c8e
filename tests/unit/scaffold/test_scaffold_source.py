"""Source text: names, literals, and where lines break."""

import ast

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kapi.scaffold.names import Names, attribute_names, class_name, wire_name
from kapi.scaffold.source import Prefixed, assignment, call, choice, flat, identifiers, literal, subscript, text

LONG = "x" * 60
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@given(value=JSON)
def test_literals_are_what_they_say(value):
    read = ast.literal_eval(flat(literal(value)))
    assert read == value
    assert repr(read) == repr(value)  # 1, 1.0 and True are not the same


@given(value=JSON)
def test_breaking_lines_changes_nothing(value):
    lines = assignment("x", "Any", call("dict", literal([value, LONG, LONG])), indent="")
    tree = ast.parse("\n".join(lines)).body[0]
    assert ast.literal_eval(tree.value.args[0]) == [value, LONG, LONG]


@pytest.mark.parametrize(
    "value, written",
    [
        ("plain", '"plain"'),
        ('say "a"', "'say \"a\"'"),
        ('it\'s "a"', "'it\\'s \"a\"'"),
        (r"^\d+$", r'r"^\d+$"'),
        (r'\d"', "r'\\d\"'"),
        ("tab\t\\", r'"tab\t\\"'),
        ("end\\", r'"end\\"'),
        ("ü\x00\u2028", '"ü\\x00\\u2028"'),
    ],
)
def test_strings_have_the_fewest_escapes(value, written):
    assert text(value) == written
    assert ast.literal_eval(written) == value


def test_names_in_strings_are_not_used():
    expression = subscript("Annotated", "str", call("crd.Rule", text("Any Literal"), key=literal({"ClassVar": "Any"})))
    assert identifiers(expression) == {"Annotated", "str", "crd"}
    assert identifiers(choice("Any", Prefixed("lambda: ", call("msgspec.convert", "Foo")))) == {"Any", "msgspec", "Foo"}


def test_choices_are_flat_and_name_nothing_twice():
    assert flat(choice(choice("int", "str"), "None", "None")) == "int | str | None"
    assert choice("None", "None") == "None"


def test_lines_break_as_formatters_break_them():
    note = call("msgspec.Meta", pattern=text(LONG), max_length="5")
    assert assignment("field", subscript("Annotated", "str", note), call("msgspec.field", name=text("f"))) == [
        "    field: Annotated[",
        "        str,",
        f'        msgspec.Meta(pattern="{LONG}", max_length=5),',
        '    ] = msgspec.field(name="f")',
    ]
    assert assignment("a_rather_long_field_name", choice(subscript("Annotated", "str", "x" * 80), "None"), "None") == [
        "    a_rather_long_field_name: (",
        f"        Annotated[str, {'x' * 80}] | None",
        "    ) = None",
    ]
    assert assignment("field", "str", call("msgspec.field", name=text(LONG), default=text(LONG))) == [
        "    field: str = msgspec.field(",
        f'        name="{LONG}",',
        f'        default="{LONG}",',
        "    )",
    ]
    assert assignment("field", subscript("list", "x" * 95), "None") == [
        f"    field: list[{'x' * 95}] = None",
    ]
    assert assignment("field", subscript("list", "x" * 97), "12345") == [
        f"    field: list[{'x' * 97}] = (",
        "        12345",
        "    )",
    ]


# -- names ------------------------------------------------------------------------------------------------------------


# Whatever a name in a file can be: half a surrogate pair is refused before it gets here.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32), max_size=6)


@example(names=["a\u09f4", "\u09f4", "\u00b2"])
@given(names=st.lists(WORDS, unique=True, max_size=6))
def test_attributes_are_legal_and_all_different(names):
    attributes = attribute_names(names)
    assert list(attributes) == names
    assert len(set(attributes.values())) == len(names)
    # A class can be made with them, which says that they are legal, and their fields found by the old names.
    fields = [(attribute, int, msgspec.field(name=name, default=1)) for name, attribute in attributes.items()]
    source = "class Sample:\n" + "\n".join(f"    {name}: int = 1" for name in attributes.values()) + "\n    pass"
    ast.parse(source)
    assert msgspec.defstruct("Sample", fields).__struct_encode_fields__ == tuple(names)


@pytest.mark.parametrize(
    "name, attribute",
    [
        ("secretName", "secret_name"),
        ("podCIDR", "pod_cidr"),
        ("podIPs", "pod_ips"),
        ("openAPIV3Schema", "open_api_v3_schema"),
        ("x509", "x509"),
        ("IPv4", "i_pv4"),
        ("class", "class_"),
        ("int", "int_"),
        ("gvk", "gvk_"),
    ],
)
def test_attributes_are_in_snake_case(name, attribute):
    assert attribute_names([name]) == {name: attribute}


@pytest.mark.parametrize(
    "attribute, name", [("foo_bar", "fooBar"), ("class_", "class"), ("_a_b", "_aB"), ("a_0b", "a0B")]
)
def test_wire_names_follow_from_attributes(attribute, name):
    assert wire_name(attribute) == name


def test_classes_are_named_by_the_way_to_them():
    assert class_name("Certificate", "spec", "issuerRef") == "CertificateSpecIssuerRef"
    assert class_name("my-kind", "x.y") == "MyKindXY"
    assert class_name("9lives") == "Type9lives"


def test_names_are_given_out_once():
    names = Names()
    assert [names.claim(name) for name in ("A", "A", "A2", "A", "Any", "None")] == [
        "A",
        "A2",
        "A22",
        "A3",
        "Any2",
        "None2",
    ]
