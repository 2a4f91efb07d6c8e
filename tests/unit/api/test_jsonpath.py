"""The JSONPath of Kubernetes: what paths find, what they refuse, and that hostile ones end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.jsonpath.path import JSONPathError, compile_path, simple_path

OBJECT = {
    "metadata": {"name": "web", "labels": {"app.example.com/tier": "front", "plain": "yes"}},
    "spec": {
        "replicas": 3,
        "paused": False,
        "ratio": 0.5,
        "nothing": None,
        "ports": [
            {"name": "http", "port": 80, "tls": False},
            {"name": "https", "port": 443, "tls": True},
            {"name": "admin", "port": 8443},
        ],
        "matrix": [[1, 2], [], [3]],
        "words": ["a", "b", "c", "d", "e"],
        "empty": [],
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}]},
}


def find(path, obj=OBJECT):
    return compile_path(path).find(obj)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        (".spec['replicas']", [3]),
        ("$.spec.replicas", [3]),
        ("@.spec.replicas", [3]),
        (".spec.nothing", [None]),
        (".spec.nothing.deeper", []),
        (".spec.absent", []),
        (".spec.replicas.deeper", []),
        (".", []),
        (r".metadata.labels.app\.example\.com/tier", ["front"]),
        (r".metadata.labels['app\.example\.com/tier']", ["front"]),
        (".metadata.labels['app.example.com/tier']", []),
        (".metadata['labels.plain']", ["yes"]),
        (".metadata.labels.*", ["front", "yes"]),
        (".metadata['name','labels'].plain", ["yes"]),
        (".metadata.name(x)", []),
    ],
)
def test_fields(path, found):
    assert find(path) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.words[0]", ["a"]),
        (".spec.words[]", ["a"]),
        (".spec.words[-1]", ["e"]),
        (".spec.words[-2]", ["d"]),
        (".spec.words[1:3]", ["b", "c"]),
        (".spec.words[:2]", ["a", "b"]),
        (".spec.words[-2:]", ["d", "e"]),
        (".spec.words[::2]", ["a", "c", "e"]),
        (".spec.words[1:4:2]", ["b", "d"]),
        (".spec.words[2:2]", []),
        (".spec.words[*]", ["a", "b", "c", "d", "e"]),
        (".spec.words[0,-1]", ["a", "e"]),
        (".spec.words[0, 2:4]", ["a", "c", "d"]),
        (".spec.ports[*].name", ["http", "https", "admin"]),
        (".spec.ports[*].tls", [False, True]),
        (".spec.empty[*].name", []),
        (".spec.nothing[0]", []),
        (".spec.absent[0].name", []),
    ],
)
def test_items_of_lists(path, found):
    assert find(path) == found


def test_an_empty_list_hides_those_after_it():
    assert find(".spec.matrix[*][*]") == [1, 2]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type == "Gone")].status', []),
        ('.status.conditions[?("Ready"==@.type)].status', ["True"]),
        ('.spec.ports[?(@.name!="http")].port', [443, 8443]),
        (".spec.ports[?(@.port<443)].name", ["http"]),
        (".spec.ports[?(@.port<=443)].name", ["http", "https"]),
        (".spec.ports[?(@.port>443)].name", ["admin"]),
        (".spec.ports[?(@.port>=443)].name", ["https", "admin"]),
        (".spec.ports[?(@.tls==true)].name", ["https"]),
        (".spec.ports[?(@.tls)].name", ["http", "https"]),
        ('.spec.ports[?(@.name>"admin")].port', [80, 443]),
        ('.spec.words[?(@=="c")]', ["c"]),
        ('.spec.words[?(@==")")]', []),
        (r'.spec.words[?(@=="\x63")]', ["c"]),
        (r".spec.words[?(@=='\143')]", ["c"]),
    ],
)
def test_filters(path, found):
    assert find(path) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("..port", [80, 443, 8443]),
        (".status..status", ["True", "False"]),
        ("..labels.plain", ["yes"]),
        (".spec.matrix..[0]", [[1, 2], 1, 3]),
    ],
)
def test_descent(path, found):
    assert find(path) == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".spec.words[9]", "array index out of bounds: index 9, length 5"),
        (".spec.words[-9]", "array index out of bounds: index -4, length 5"),
        (".spec.words[0:9]", "array index out of bounds: index 8, length 5"),
        (".spec.words[3:1]", "starting index 3 is greater than ending index 1"),
        (".spec.words[::0]", "step must be > 0"),
        (".spec.replicas[0]", "not array or slice"),
        (".spec.replicas[?(@.a)]", "cannot be filtered"),
        (".spec.ports[?(@.port==0.5)]", "incompatible types for comparison"),
        (".spec.ports[?(@==1)]", "invalid type for comparison"),
        (".spec.ports[?(@.tls<true)]", "invalid type for comparison"),
        (".spec.ports[?(@.port=<1)]", "unrecognized filter operator =<"),
        (".status[?(@.type)]", "cannot be filtered"),
        (".spec.ports[?(@.*==1)]", "can only compare one element at a time"),
        (".spec word", "unrecognized identifier word"),
        (".spec range", "range"),
        (".spec end", "not in range, nothing to end"),
    ],
)
def test_a_path_that_does_not_match_the_object_is_an_error_with_a_reason(path, message):
    with pytest.raises(JSONPathError, match=message):
        find(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".a\n", "unclosed action"),
        (".a\\", "unclosed action"),
        (".a[0", "unterminated array"),
        (".b[0][1", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[-]", "array index - is not a number"),
        (".a[0:-]", "array index - is not a number"),
        (".a[99999999999999999999]", "array index 99999999999999999999 is not a number"),
        (".a[?(@.b==1]", "unterminated filter"),
        (".a[?(@.b==1)", "unclosed array expect ]"),
        (".a[?(==1)]", "unrecognized character in action: U+003D '='"),
        (".a (b)", "unrecognized character in action: U+0028 '('"),
        (".a\tb", "unrecognized character in action: U+0009"),
        ("....a", "invalid multiple recursive descent"),
        ("..*", "unrecognized character in action: U+002A '*'"),
        ("1.2.3", "cannot parse number 1.2.3"),
        ('"a', "unterminated quoted string"),
        (r'"\q"', r'unquote string "\q" error invalid syntax'),
        (r'"\ud800"', r'unquote string "\ud800" error invalid syntax'),
        (r"'a\"b'", r"unquote string 'a\"b' error invalid syntax"),
    ],
)
def test_an_invalid_path_is_refused_with_the_message_of_client_go(path, message):
    with pytest.raises(JSONPathError) as caught:
        compile_path(path)
    assert str(caught.value) == message


def test_an_existence_filter_treats_a_missing_index_as_found():
    assert find(".l[?(@.words[7])].name", {"l": [{"words": [], "name": "a"}, {"name": "b"}]}) == ["a"]


def test_constants_stand_for_what_was_found():
    assert find('.spec "text"') == ["text"]
    assert find(".spec.words[0:2] 5") == [5, 5]
    assert find(".spec true") == [True]
    assert find(r'.spec "a\tb\"é\u00e9"') == ['a\tb"éé']


def test_only_the_first_action_is_used_and_a_later_failure_is_an_error():
    assert find(".spec.replicas} and {.spec.paused") == [3]
    with pytest.raises(JSONPathError, match="out of bounds"):
        find(".spec.replicas}{.spec.words[9]")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (".spec.replicas", ("spec", "replicas")),
        ("spec.replicas", ("spec", "replicas")),
        (r".spec.a\.b", ("spec", "a\\", "b")),
        (".spec.a['b']", ("spec", "a['b']")),
        ("..a", ("", "a")),
    ],
)
def test_a_simple_path_is_split_at_dots_and_nothing_else(text, names):
    assert simple_path(text) == names


# -- hostile paths ----------------------------------------------------------------------------------------------------


def test_a_path_has_a_greatest_length():
    compile_path(".a" * 2048)
    with pytest.raises(JSONPathError, match="longer than 4096 characters"):
        compile_path(".a" * 2048 + ".")


def test_a_path_with_exponential_results_is_stopped():
    with pytest.raises(JSONPathError, match="touches more than"):
        find("[*,*]".join([".l", *[""] * 40]), {"l": [[[[[[1] * 4] * 4] * 4] * 4] * 4]})
    deep: object = "leaf"
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(JSONPathError, match="touches more than"):
        find("..a" * 20, deep)


def test_many_filters_over_many_items_are_stopped():
    with pytest.raises(JSONPathError, match="touches more than"):
        find(".l" + "[?(@.a[*])]" * 300, {"l": [{"a": [0] * 1000}] * 1000})


def test_brackets_and_quotes_cannot_nest_deep():
    # Quotes that the filter skips and the field swallows are the one way to nest; each level needs a kind of its own.
    assert find(""".l[?(@.a"[?(@.b)].c")]""", {"l": [{'a"': [{"b": 1, 'c"': 2}]}]}) == [{'a"': [{"b": 1, 'c"': 2}]}]
    for hostile in ("[?(" * 1000, "['" * 1000, "{" * 4000, "[?(@" * 500 + ")]" * 500, "[0," * 1000 + "]" * 1000):
        with pytest.raises(JSONPathError):
            compile_path(hostile)


WHOLE = [".a", ".b", "..", "..a", ".*", "[*]", "[0]", "[-1]", "[1:]", "[0,1]", "['a']", "[?(@.a==1)]", "[?(@.b)]"]
PIECES = st.sampled_from([*WHOLE, *"{}'\"\\ ()[]?@1-x\né,="])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@given(st.lists(PIECES, max_size=8).map("".join), JSON)
def test_random_paths_are_evaluated_or_refused(path, obj):
    try:
        found = compile_path(path).find(obj)
    except JSONPathError:
        return
    assert isinstance(found, list)


@given(st.lists(st.text("ab.\\'[]{}$@, *x", min_size=1, max_size=4), min_size=1, max_size=4), st.integers())
def test_escaping_every_character_reaches_any_key_that_has_no_backslash(keys, leaf):
    keys = [key.replace("\\", "x") for key in keys]
    path = "".join("." + "".join("\\" + char for char in key) for key in keys)
    obj: object = leaf
    for key in reversed(keys):
        obj = {key: obj}
    assert compile_path(path).find(obj) == [leaf]
