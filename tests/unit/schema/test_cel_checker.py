"""Types and references of expressions, and the messages about what does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cel_accepted_samples import ACCEPTED
from cel_refused_samples import REFUSED
from cel_trees import nodes
from cel_variables import SELF, VARIABLES
from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.schema.cel.check.checker import CheckErrors, check
from kapi.schema.cel.check.declarations import Declarations
from kapi.schema.cel.libraries import standard
from kapi.schema.cel.libraries.standard import STANDARD
from kapi.schema.cel.library import Functions, Library
from kapi.schema.cel.syntax.ast import Call, Checked, Select, StructExpr
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.syntax.parser import DEEPEST, SyntaxErrors, parse
from kapi.schema.cel.types import BOOL, DYN, INT, LIST, STRING, Object, Overload, Param, Type, list_of, map_of, type_of

if TYPE_CHECKING:
    import random

FORMAT = Library(
    name="format",
    functions={"format": (Overload("string_format", (STRING, list_of(DYN)), STRING, member=True),)},
    implementations={},
    types={"net.IP": Type("net.IP"), "net.CIDR": Type("net.CIDR")},
)
FUNCTIONS = Functions((standard.LIBRARY, FORMAT))


def checked(source: str, **variables: Type) -> Checked:
    return check(parse(source), source, Declarations({**VARIABLES, **variables}, FUNCTIONS, {}))


def complaints(source: str, **variables: Type) -> list[str]:
    with pytest.raises(CheckErrors) as caught:
        checked(source, **variables)
    lead = "ERROR: <input>:"
    return [line.removeprefix(lead) for line in str(caught.value).splitlines() if line.startswith(lead)]


@pytest.mark.parametrize(("source", "type_"), ACCEPTED, ids=[source for source, _ in ACCEPTED])
def test_well_typed_expressions_have_the_types_of_cel_go(source: str, type_: str) -> None:
    assert str(checked(source).type) == type_


@pytest.mark.parametrize(("source", "issues"), REFUSED, ids=[source for source, _ in REFUSED])
def test_issues_are_reported_in_the_words_of_cel_go(source: str, issues: list[str]) -> None:
    with pytest.raises(ExpressionErrors) as caught:
        checked(source)
    lead = "ERROR: <input>:"
    assert [line.removeprefix(lead) for line in str(caught.value).splitlines() if line.startswith(lead)] == issues


def test_an_issue_shows_its_line_and_a_caret() -> None:
    with pytest.raises(CheckErrors) as caught:
        checked("self.spec.replicas ==\n  self.spec.name")
    assert str(caught.value) == (
        "ERROR: <input>:1:20: found no matching overload for '_==_' applied to '(int, string)'\n"
        " | self.spec.replicas ==\n"
        " | ...................^"
    )


@pytest.mark.parametrize(
    ("source", "overloads"),
    [
        ("1 + 2", ("add_int64",)),
        ("1 < 2.5", ("less_int64_double",)),
        ("self.spec.tags[0]", ("index_list",)),
        ("self.spec.labels['a']", ("index_map",)),
        ("self.spec.?labels['a']", ("optional_map_index_value",)),
        ("anything[0]", ("index_list", "index_map", "optional_list_index_int", "optional_map_index_value")),
        ("anything['a']", ("index_map", "optional_map_index_value")),
        ("'a' in anything", ("in_list", "in_map")),
        ("size(anything)", ("size_bytes", "size_list", "size_map", "size_string")),
        ("anything.size()", ("bytes_size", "list_size", "map_size", "string_size")),
        ("anything.getHours()", ("timestamp_to_hours", "duration_to_hours")),
        ("anything.?a", ("select_optional_field",)),
        ("anything && true", ("logical_and",)),
        ("self.spec.timeout.getSeconds()", ("duration_to_seconds",)),
        ("matches('a', 'b')", ("matches",)),
        ("'a'.matches('b')", ("matches_string",)),
        ("optional.of(1)", ("optional_of",)),
    ],
)
def test_calls_refer_to_the_overloads_that_may_apply(source: str, overloads: tuple[str, ...]) -> None:
    found = checked(source)
    assert found.overloads[found.root.id] == overloads


@pytest.mark.parametrize(
    ("source", "type_"),
    [
        ("anything + 1", "int"),
        ("anything + anything", "dyn"),
        ("anything[0]", "dyn"),
        ("anything == 1", "bool"),
        ("true ? anything : 1", "dyn"),
        ("[].map(x, x)", "list(dyn)"),
        ("[] + [1]", "list(int)"),
        ("{}.transformMap(k, v, v)", "map(dyn, dyn)"),
    ],
)
def test_what_is_not_known_is_dyn(source: str, type_: str) -> None:
    assert str(checked(source).type) == type_


def test_every_node_has_a_type_and_no_parameter_is_left() -> None:
    def has_parameter(type_: Type) -> bool:
        return isinstance(type_, Param) or any(map(has_parameter, type_.params))

    for source, _ in ACCEPTED:
        found = checked(source)
        reached = [node for node in nodes(found.root) if node.id not in found.names]
        assert all(node.id in found.types for node in reached if not _is_part_of_name(node, found)), source
        assert not any(map(has_parameter, found.types.values())), source


def _is_part_of_name(node: object, found: Checked) -> bool:
    """Whether the node is below a selection that is a qualified name as a whole, such as `net` in `net.IP`."""
    names = [one for one in nodes(found.root) if isinstance(one, Select) and one.id in found.names]
    return any(node is below for one in names for below in nodes(one))


def test_names_are_resolved() -> None:
    found = checked("self.spec.enabled && d.otted.name > 1 && [int].all(t, t == int)")
    assert set(found.names.values()) == {"self", "d.otted.name", "int", "t", "@result"}


def test_a_function_with_a_dotted_name_loses_its_receiver() -> None:
    found = checked("optional.of(1).value()")
    call = found.root
    assert isinstance(call, Call)
    assert isinstance(call.target, Call)
    assert (call.target.function, call.target.target) == ("optional.of", None)


def test_a_loop_variable_hides_others_inside_the_loop_only() -> None:
    assert checked("[1].all(self, self > 0) && self.spec.enabled").type == BOOL
    assert checked("[[1]].all(x, x.all(x, x > 0) && x.size() > 0)").type == BOOL
    assert complaints("[1].all(x, x > 0) && x") == ["1:22: undeclared reference to 'x' (in container '')"]


@pytest.mark.parametrize("name", ["int", "string", "bool", "null_type", "timestamp", "google.protobuf.Duration"])
def test_types_are_values(name: str) -> None:
    assert checked(name).type.name == "type"
    assert checked(f"type(anything) == {name}").type == BOOL


def test_variables_come_before_types() -> None:
    assert checked("int", int=STRING).type == STRING


def test_objects_of_one_name_are_one_type() -> None:
    twin = Object("selfType", fields=SELF.fields)
    assert checked("self == other", other=twin).type == BOOL
    assert complaints("self == other", other=Object("otherType", fields=SELF.fields)) == [
        "1:6: found no matching overload for '_==_' applied to '(selfType, otherType)'"
    ]


def test_words_of_the_language_can_be_fields() -> None:
    assert checked("self.spec.namespace").type == STRING
    assert checked("has(self.spec.namespace)").type == BOOL
    assert complaints("self.spec.for") == ["1:10: undefined field 'for'"]


@pytest.mark.parametrize(
    ("source", "issue"),
    [
        ("duration('nonsense')", "1:10: invalid duration argument"),
        ("duration(1)", "1:10: invalid duration argument"),
        ("timestamp('2020-02-30T00:00:00Z')", "1:11: invalid timestamp argument"),
        ("timestamp(999999999999999)", "1:11: invalid timestamp argument"),
        ("timestamp(null)", "1:11: invalid timestamp argument"),
        ("'a'.matches('*')", "1:13: invalid matches argument"),
        ("matches('(', 'a')", "1:9: invalid matches argument"),
        ("[1].all(x, duration('x') < duration('1s'))", "1:21: invalid duration argument"),
        ("[1, dyn(2)]", "1:8: expected type 'int' but found 'dyn'"),
        ("[?optional.of(1), 'a']", "1:19: expected type 'int' but found 'string'"),
        ("{'a': 1, ?'b': optional.of('c')}", "1:27: expected type 'int' but found 'string'"),
        ("{1: 2, 'a': 2}", "1:8: expected type 'int' but found 'string'"),
        ("[[1, 'a']]", "1:6: expected type 'int' but found 'string'"),
    ],
)
def test_constants_that_can_never_work_are_refused(source: str, issue: str) -> None:
    assert complaints(source) == [issue]


TEXT = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


@pytest.mark.parametrize(
    ("source", "issue"),
    [
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%f'.format([1])",
            "1:14: error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            "'%e'.format([1])",
            "1:14: error during formatting: scientific clause can only be used on doubles, was given int",
        ),
        (
            "'%o'.format([''])",
            "1:14: error during formatting: octal clause can only be used on integers, was given string",
        ),
        (
            "'%b'.format([''])",
            "1:14: error during formatting: only integers and bools can be formatted as binary, was given string",
        ),
        (
            "'%x'.format([1.5])",
            (
                "1:14: error during formatting: only integers, byte buffers, and strings can be formatted as hex,"
                " was given double"
            ),
        ),
        ("'%s'.format([self])", f"1:14: error during formatting: {TEXT}, was given selfType"),
        ("'%s'.format([[1, {2: self.spec}]])", f"1:26: error during formatting: {TEXT}, was given selfType.spec"),
        ("'%s'.format([1, 2])", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%s %s'.format([1])", "1:15: index 1 out of range"),
        ("'%'.format([1])", "1:11: unexpected end of string"),
        ("'%z'.format([1])", '1:12: could not parse formatting clause: unrecognized formatting clause "z"'),
        (
            "'%.2'.format([1.0])",
            (
                "1:13: could not parse formatting clause: error while parsing precision:"
                " could not find end of precision specifier"
            ),
        ),
        (
            "'%.f'.format([1.0])",
            (
                "1:13: could not parse formatting clause: error while parsing precision:"
                ' error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            ),
        ),
    ],
)
def test_format_strings_must_suit_their_arguments(source: str, issue: str) -> None:
    assert complaints(source) == [issue]


@pytest.mark.parametrize(
    "source",
    [
        "'%s is %d of %.2f%%'.format(['a', 1, 2.5])",
        "'%s %s'.format([[1, 'a'], {1: 'b', 'c': 2.5}])",
        "'%x %X %b %o %e'.format([1, b'a', true, 2u, 1.5])",
        "'%d %s'.format([anything, anything])",
        "self.spec.name.format([self])",
        "'%d'.format(self.spec.tags)",
    ],
)
def test_what_is_formatted_may_be_of_several_types(source: str) -> None:
    assert checked(source).type == STRING


def test_only_declared_object_types_can_be_constructed() -> None:
    assert complaints("foo.Bar{a: 1}") == ["1:8: undeclared reference to 'foo.Bar' (in container '')"]
    assert complaints("int{}") == ["1:4: 'int' is not a message type"]
    assert complaints("self{}") == ["1:5: 'selfType' is not a type"]
    assert isinstance(parse("a{}"), StructExpr)


def test_functions_are_those_that_are_given() -> None:
    overloads = (Overload("twice_int", (INT,), INT), Overload("twice_member", (INT,), STRING, member=True))
    library = Library(name="test", functions={"twice": overloads}, implementations={})
    declared = Declarations({}, Functions((library,)), {})
    assert check(parse("twice(1)"), "twice(1)", declared).type == INT
    assert check(parse("1.twice()"), "1.twice()", declared).type == STRING
    with pytest.raises(CheckErrors, match="undeclared reference to 'size'"):
        check(parse("size('a')"), "size('a')", declared)


@pytest.mark.parametrize(
    "source",
    [
        "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1),
        "anything" + "[0]" * DEEPEST,
        "1" + " + 1" * DEEPEST,
        "[]" + " + []" * DEEPEST,
        "true ? [] : " * (DEEPEST - 1) + "[]",
        "anything" + ".map(x, [x])" * 49,
    ],
)
def test_the_deepest_expressions_can_be_checked(source: str) -> None:
    assert str(checked(source).type)


def test_types_that_double_with_each_step_are_refused() -> None:
    assert complaints("[1]" + ".map(x, {x: x})" * 45) == ["-1:0: the types of the expression are too complex"]


def test_many_empty_lists_are_one_list() -> None:
    found = checked(f"[{', '.join(['[]'] * 3000)}, [1]]")
    assert found.type == list_of(list_of(INT))


def _try(source: str) -> Checked | str:
    try:
        return checked(source)
    except (SyntaxErrors, CheckErrors) as errors:
        return str(errors)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([source for source, _ in ACCEPTED]), min_size=4, max_size=4), st.integers(0, 9))
def test_combined_expressions_check_or_are_check_errors(parts: list[str], shape: int) -> None:
    first, second, third, fourth = (f"({part.split('//')[0]})" for part in parts)
    shapes = [
        f"{first} + {second}",
        f"{first} == {second} && {third} != {fourth}",
        f"[{first}, {second}, {third}]",
        f"{{{first}: {second}, {third}: {fourth}}}",
        f"{first} ? {second} : {third}",
        f"{first}.map(x, {second})",
        f"[{first}].map(x, [x, {second}])",
        f"{first}[{second}] in {third}",
        f"{first}.optMap(x, [x, {second}])",
        f"{first}.exists(k, v, v == {second})",
    ]
    found = _try(shapes[shape])
    assert isinstance(found, Checked) or found.startswith("ERROR: <input>:")


@settings(max_examples=300)
@given(st.sampled_from([source for source, _ in (*ACCEPTED, *REFUSED)]), st.randoms(use_true_random=False))
def test_damaged_expressions_check_or_are_errors(source: str, chance: random.Random) -> None:
    at = chance.randrange(len(source) + 1)
    other = chance.choice(ACCEPTED)[0]
    damaged = source[:at] + other[: chance.randrange(9)] + source[at + chance.randrange(4) :]
    found = _try(damaged)
    assert isinstance(found, Checked) or found.startswith("ERROR: <input>:")


def test_standard_overloads_have_ids_of_their_own() -> None:
    ids = [overload.id for overloads in STANDARD.values() for overload in overloads]
    assert len(ids) == len(set(ids))
    assert all(not overload.member or overload.args for overloads in STANDARD.values() for overload in overloads)


def test_types_are_shown_as_messages_show_them() -> None:
    assert str(map_of(STRING, list_of(Type("null_type")))) == "map(string, list(null))"
    assert str(type_of(Type("google.protobuf.Timestamp"))) == "type(timestamp)"
    assert str(Type(LIST, (DYN,))) == "list(dyn)"
