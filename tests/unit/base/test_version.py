"""The version, and whether it is the compiled form that runs."""

import importlib
import os
import pathlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from generate.compiledmodules import MODULES, OPEN_CLASSES
from kapi.base.version import VERSION, compiler, described

EXPECTED = os.environ.get("KAPI_EXPECTED_COMPILER") or sys.implementation.name
"""Set by those who have installed a compiled wheel and mean to test that."""


def test_the_form_that_is_tested_is_the_one_that_was_meant():
    assert compiler() == EXPECTED
    assert described() == f"{VERSION} ({'compiled by mypyc' if EXPECTED == 'mypyc' else 'plain Python'})"


@pytest.mark.parametrize("name", MODULES)
def test_all_modules_of_the_set_have_the_same_form(name):
    path = pathlib.Path(importlib.import_module(name).__file__)
    assert path.name.endswith(tuple(EXTENSION_SUFFIXES)) == (EXPECTED == "mypyc")


@pytest.mark.skipif(EXPECTED != "mypyc", reason="plain Python may be that of the source tree")
def test_the_compiled_form_is_the_one_that_is_installed():
    path = pathlib.Path(sys.modules["kapi"].__file__)
    assert path.is_relative_to(sys.prefix), path


@pytest.mark.parametrize("name", sorted(OPEN_CLASSES))
def test_open_classes_can_have_subclasses(name):
    module, _, attribute = name.rpartition(".")
    cls = getattr(importlib.import_module(module), attribute)
    assert issubclass(type("Subclass", (cls,), {}), cls)
