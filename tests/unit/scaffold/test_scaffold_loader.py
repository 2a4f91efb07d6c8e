"""Finding classes by name, and making definitions that servers accept of them."""

import itertools
import textwrap

import pytest

from kapi.api.crd import Column, CustomResource, Rule, resource
from kapi.scaffold.definitions import BadDefinition, definitions_of, problems
from kapi.scaffold.loader import NotLoaded, load

_number = itertools.count()
KINDS = """
    from kapi.api.crd import CustomResource, Model, resource

    class Spec(Model):
        size: int = 1

    @resource("a.example.com/v1")
    class Second(CustomResource):
        spec: Spec

    @resource("a.example.com/v1")
    class First(CustomResource):
        spec: Spec

    Alias = First

    class Bare(CustomResource):
        pass

    class Child(First):
        pass

    number = 1
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module of a text; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text=KINDS):
        name = f"kinds_{next(_number)}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return name

    return make


def test_a_class_is_found_by_its_name(module):
    assert [cls.__name__ for cls in load(f"{module()}:First")] == ["First"]


def test_a_module_stands_for_every_kind_in_it(module):
    assert [cls.__name__ for cls in load(module())] == ["Second", "First"]


def test_kinds_a_package_hands_on_are_found(module):
    inner = module()
    assert [cls.__name__ for cls in load(module(f"from {inner} import First"))] == ["First"]


@pytest.mark.parametrize(
    "target, message",
    [
        ("no_such_module", "there is no module no_such_module, neither here nor installed"),
        ("no_such.module:Kind", "there is no module no_such.module, neither here nor installed"),
        ("json.nothing", "there is no module json.nothing, neither here nor installed"),
        ("folder/kinds.py", "'folder/kinds.py' is not the name of a module; write package.module"),
        ("kinds.py", "'kinds.py' is not the name of a module"),
        (".kinds", "'.kinds' is not the name of a module"),
        ("kinds:", "'kinds:' is not of the form module:Class or module"),
        (":Kind", "':Kind' is not of the form module:Class or module"),
        ("json", "json has no class decorated with @resource"),
        ("json:nothing", "json has no nothing"),
        ("json:loads", "json:loads is no custom kind: it must be a subclass of CustomResource"),
        ("json:JSONDecoder", "json:JSONDecoder is no custom kind"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(target, message):
    with pytest.raises(NotLoaded) as caught:
        load(target)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Bare", "Child"])
def test_a_class_without_a_kind_is_refused(module, name):
    with pytest.raises(NotLoaded, match=f"{name} has no kind: decorate it with @resource"):
        load(f"{module()}:{name}")


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\nx.y", r"cannot be imported: AttributeError: 'int' object has no attribute 'y' \(.*, line 2\)"),
        (
            "import nothing_of_that_name",
            r"cannot be imported: ModuleNotFoundError: No module named 'nothing_of_that_name' \(",
        ),
        ("def (", r"cannot be imported: SyntaxError: "),
        ("raise SystemExit(3)", r"exits when it is imported \(3\)"),
        (
            "from kapi.api.crd import *\n@resource('v1')\nclass A(CustomResource): pass",
            "ValueError: 'v1' is not of the form group/version",
        ),
    ],
    ids=["error", "import", "syntax", "exit", "decorator"],
)
def test_a_module_that_fails_is_said_in_one_line(module, text, message):
    with pytest.raises(NotLoaded, match=message) as caught:
        load(module(text))
    assert "\n" not in str(caught.value)


# -- definitions ------------------------------------------------------------------------------------------------------


def test_versions_of_a_kind_are_gathered_into_one_definition():
    @resource("b.example.com/v1beta1", kind="Lamp", storage=False)
    class Older(CustomResource):
        pass

    @resource("b.example.com/v1")
    class Box(CustomResource):
        pass

    @resource("b.example.com/v1", kind="Lamp")
    class Newer(CustomResource):
        pass

    made = definitions_of([Older, Box, Newer, Box])
    assert [one["metadata"]["name"] for one in made] == ["lamps.b.example.com", "boxes.b.example.com"]
    assert [version["name"] for version in made[0]["spec"]["versions"]] == ["v1", "v1beta1"]


def refused(**options):
    @resource(options.pop("group_version", "b.example.com/v1"), **options)
    class Box(CustomResource):
        pass

    with pytest.raises(BadDefinition) as caught:
        definitions_of([Box])
    return str(caught.value)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"group_version": "b/v1"},
            'boxes.b: spec.group: Invalid value: "b": should be a domain with at least one dot',
        ),
        ({"plural": "Boxes"}, "Boxes.b.example.com: metadata.name: Invalid value"),
        ({"rules": (Rule("self.nothing"),)}, "undefined field 'nothing'"),
        (
            {"columns": (Column("A", "spec"),)},
            "boxes.b.example.com: spec.additionalPrinterColumns[0].JSONPath: Invalid value",
        ),
        ({"group_version": "b.k8s.io/v1"}, "metadata.annotations[api-approved.kubernetes.io]: Required value"),
    ],
    ids=["group", "plural", "rule", "column", "approval"],
)
def test_what_servers_refuse_is_refused_in_their_words(options, message):
    assert message in refused(**options)


def test_what_cannot_be_a_definition_is_refused():
    @resource("b.example.com/v1")
    class Odd(CustomResource):
        spec: complex

    with pytest.raises(BadDefinition, match=r"^Odd\.spec: complex has no schema$"):
        definitions_of([Odd])


@pytest.mark.parametrize(
    "extra, message",
    [
        ({"maxItems": "many"}, "maxItems"),
        ({"color": "red"}, 'unknown field "spec.versions[0].schema.openAPIV3Schema.color"'),
    ],
    ids=["type", "unknown"],
)
def test_keywords_that_are_no_keywords_are_refused(extra, message):
    @resource("b.example.com/v1")
    class Odd(CustomResource):
        SCHEMA = extra

    with pytest.raises(BadDefinition) as caught:
        definitions_of([Odd])
    assert message in str(caught.value)


def test_checking_changes_nothing():
    @resource("b.example.com/v1")
    class Box(CustomResource):
        pass

    made = definitions_of([Box])[0]
    assert "status" not in made
    assert "conversion" not in made["spec"]
    assert problems(made) == []
