"""What mypyc reads of the modules that a compiled wheel has compiled: all of them can be, and what it gets wrong is refused.

That the compiled wheel passes the unit tests is tested by `make pythons`.
"""

import ast
import pathlib

import pytest

from generate import compiledmodules, extensions
from generate.compiledsource import NotCompilable, edited

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = '"""A module."""\n\nfrom __future__ import annotations\n\nimport asyncio\n\n\n'


def edit(text, *, modules=("kapi.a", "kapi.b"), open_classes=()):
    return edited("kapi.a", HEAD + text, modules=modules, open_classes=open_classes)


@pytest.mark.parametrize("module", compiledmodules.MODULES)
def test_every_module_of_the_set_can_be_compiled_and_keeps_its_lines(module):
    text = (ROOT / "src" / pathlib.Path(*module.split(".")).with_suffix(".py")).read_text()
    changed = edited(module, text, modules=compiledmodules.MODULES, open_classes=compiledmodules.OPEN_CLASSES)
    assert len(changed.splitlines()) == len(text.splitlines())
    places = [
        [(type(node), node.lineno) for node in ast.walk(ast.parse(one)) if isinstance(node, ast.Call)]
        for one in (text, changed)
    ]
    assert set(places[0]) <= set(places[1])


def test_open_classes_are_classes_of_modules_of_the_set():
    for name in compiledmodules.OPEN_CLASSES:
        module, _, attribute = name.rpartition(".")
        assert module in compiledmodules.MODULES
        assert (
            f"\nclass {attribute}" in (ROOT / "src" / pathlib.Path(*module.split(".")).with_suffix(".py")).read_text()
        )


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            "async def f():\n    try:\n        pass\n    except OSError:\n        await g()\n",
            "waits in `except` or `finally`",
        ),
        ("async def f():\n    try:\n        pass\n    finally:\n        await g()\n", "waits in `except` or `finally`"),
        ("from kapi.other import Base\n\n\nclass A(Base):\n    pass\n", "would lose its base class Base"),
        ("import msgspec\n\n\nclass A(msgspec.Struct):\n    a: int\n", "types of the fields of A"),
        ("@dataclass(slots=True)\nclass A:\n    a: int\n", "decorator that mypyc gets wrong"),
        ("@runtime_checkable\nclass A(Protocol):\n    a: int\n", "Protocol"),
        ("class A:\n    @functools.cached_property\n    def a(self): ...\n", "computed each time"),
        ("class A:\n    def close(self):\n        del self.a\n", "no __slots__"),
    ],
)
def test_what_mypyc_gets_wrong_is_refused(text, problem):
    with pytest.raises(NotCompilable, match=problem):
        edit(text)


def test_what_is_not_waited_for_in_a_handler_is_accepted():
    edit("async def f():\n    try:\n        pass\n    except OSError:\n        keep(lambda: g())\n    await g()\n")
    edit("from kapi.b import Base\n\n\nclass A(Base):\n    pass\n")


def test_exceptions_stay_classes_of_python():
    assert "\n@python_class\nclass A(ValueError):" in edit("class A(ValueError):\n    pass\n")
    assert "@python_class" not in edit("class A:\n    pass\n")


def test_open_classes_and_deleted_attributes_are_declared():
    text = 'class A:\n    __slots__ = ("a",)\n\n    def close(self):\n        del self.a\n'
    changed = edit(text, open_classes={"kapi.a.A"})
    assert "\n@mypyc_attr(allow_interpreted_subclasses=True)\nclass A:" in changed
    assert "__deletable__ = ['a']; __slots__ = (" in changed


def test_types_of_fields_of_named_tuples_are_quoted():
    text = "from typing import NamedTuple\n\n\nclass A(NamedTuple):\n    a: dict[str, Later] = {}\n"
    assert "    a: 'dict[str, Later]' = {}\n" in edit(text)


def test_other_threads_have_their_turn_in_every_loop():
    source = "int f(void) {\nCPyL1: ;\n    if (x) goto CPyL2;\n    goto CPyL1;\nCPyL2: ;\n}\nint g(void) {\n    goto CPyL1;\nCPyL1: ;\n}\n"
    body = extensions.with_turns(source)
    assert body.endswith(source.replace("    goto CPyL1;\nCPyL2", "    { KAPI_TURN(); goto CPyL1; }\nCPyL2"))


def test_a_machine_that_cannot_compile_says_why(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -x")
    reason = extensions.obstacle()
    assert "no-such-compiler" in reason or "Python.h" in reason
