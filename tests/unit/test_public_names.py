"""The names an operator author imports from `kapi`: they stay, they are real, and importing `kapi` costs nothing."""

import subprocess
import sys

import pytest

import kapi

NAMES = [
    "AlreadyExists",
    "ApiError",
    "CacheOptions",
    "Client",
    "ClientConfig",
    "Column",
    "Conflict",
    "CustomResource",
    "EventRecorder",
    "Finalizers",
    "Leadership",
    "ListMap",
    "Manager",
    "Model",
    "NotFound",
    "ObjectKey",
    "ObjectMeta",
    "Reconciler",
    "Request",
    "Result",
    "Rule",
    "Scale",
    "SharedInformerFactory",
    "TerminalError",
    "__version__",
    "definition",
    "ensure_finalizer",
    "is_deleting",
    "remove_finalizer",
    "resource",
    "run",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]


def test_the_names_are_frozen():
    assert sorted(kapi.__all__) == sorted(NAMES)


def test_every_name_is_there():
    for name in NAMES:
        assert getattr(kapi, name) is not None
        assert name in dir(kapi)


def test_another_name_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match="nothing"):
        kapi.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else_of_it():
    code = "import sys, kapi; print([name for name in sys.modules if name.startswith('kapi.')])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "['kapi.base', 'kapi.base.version']"
