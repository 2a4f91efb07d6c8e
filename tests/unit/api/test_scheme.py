"""Which class stands for which kind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

import kapi
from kapi.api.builtin import core_v1
from kapi.api.crd import CustomResource, resource
from kapi.api.meta import GroupVersionKind
from kapi.api.scheme import SCHEME, Scheme

POD = GroupVersionKind("", "v1", "Pod")


@resource("scheme.example.com/v1")
class Network(CustomResource):
    "A network."

    spec: str = ""


class Heir(Network):
    "The same kind with methods of its own."


def test_built_in_kinds_are_known():
    assert Scheme().class_for(POD) is core_v1.Pod
    assert Scheme().class_for(GroupVersionKind("apps", "v1", "Deployment")).gvk.kind == "Deployment"
    assert Scheme().class_for(GroupVersionKind("apps", "v2", "Deployment")) is None


def test_registered_class_is_found_by_its_kind_and_the_last_one_wins():
    scheme = Scheme()
    assert scheme.class_for(Network.gvk) is None
    assert scheme.register(Network) is Network
    assert scheme.class_for(Network.gvk) is Network
    scheme.register(Heir)
    assert scheme.class_for(Network.gvk) is Heir

    class MyPod(msgspec.Struct):
        gvk: ClassVar[GroupVersionKind] = POD

    scheme.register(MyPod)
    assert scheme.class_for(POD) is MyPod
    assert SCHEME.class_for(POD) is core_v1.Pod


def test_kind_of_classes_and_objects():
    for thing in (core_v1.Pod, core_v1.Pod(), {"apiVersion": "v1", "kind": "Pod"}):
        assert SCHEME.gvk_of(thing) == POD
    assert SCHEME.gvk_of(Network()) == SCHEME.gvk_of(Heir) == ("scheme.example.com", "v1", "Network")
    assert SCHEME.gvk_of({"apiVersion": "apps/v1", "kind": "Deployment"}) == ("apps", "v1", "Deployment")


@pytest.mark.parametrize("thing", [core_v1.PodSpec, core_v1.PodSpec(), int, CustomResource], ids=repr)
def test_class_without_a_kind_is_refused(thing):
    with pytest.raises(TypeError, match="stands for no kind"):
        SCHEME.gvk_of(thing)


@pytest.mark.parametrize("obj", [{}, {"kind": "Pod"}, {"apiVersion": "v1"}, {"apiVersion": 1, "kind": "Pod"}], ids=str)
def test_dictionary_without_api_version_and_kind_is_refused(obj):
    with pytest.raises(ValueError, match="does not say what it is"):
        SCHEME.gvk_of(obj)


def test_only_struct_classes_can_be_registered():
    class Plain:
        gvk = POD

    with pytest.raises(TypeError, match=r"not a msgspec\.Struct"):
        SCHEME.register(Plain)


def test_scheme_imports_kinds_lazily():
    program = (
        "import sys; from kapi.api.scheme import SCHEME\n"
        "print(sorted(name for name in sys.modules if name.startswith('kapi.api.builtin')))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "['kapi.api.builtin']"
