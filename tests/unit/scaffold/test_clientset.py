"""Generated packages of clients: what is in them, what things are called, and that tools leave them alone."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import crd_classes
from kapi.api.crd import CustomResource, Scale, resource
from kapi.codec import yaml
from kapi.informer import Lister, SharedInformerFactory
from kapi.scaffold.clientset import kinds as clientset_kinds
from kapi.scaffold.clientset import package as clientset_package
from kapi.scaffold.clientset import package_of_classes, package_of_definitions
from kapi.scaffold.clientset.imports import exported, imports
from kapi.scaffold.clientset.kinds import NoClientset, Served, kinds_of_classes, named
from kapi.scaffold.definitions import read_definition
from kapi.scaffold.models import NoTypes

EXAMPLES = sorted((Path(__file__).parents[2] / "crds").glob("*-crd.yaml"))
LAMPS = (crd_classes.LampV1, crd_classes.LampV1Beta1, crd_classes.LampV1Alpha1)


def definitions(*names):
    return [
        read_definition(yaml.decode(path.read_bytes())) for path in EXAMPLES if not names or path.name[:-9] in names
    ]


def methods(source):
    """The public methods of each class of a module."""
    return {
        node.name: [part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def served(kind="Network", version="v1", **more):
    given = {"module": "here", "cls": kind, "group": "a.dev", "plural": f"{kind.lower()}s"} | more
    return Served(kind=kind, version=version, **given)


# -- what is in it ----------------------------------------------------------------------------------------------------

INFORMERS = '''"""Informers of each kind.

For metrics.example.com. Made by `kapi generate client`.
"""

from kapi.api.selectors import LabelSelector
from kapi.informer import SharedInformer, SharedInformerFactory

from .kinds import Collector


class SharedInformers(SharedInformerFactory):
    """Makes, shares, starts and stops informers; it has a method for each kind."""

    def collectors(
        self,
        *,
        namespace: str | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[Collector]:
        """The informer of collectors of metrics.example.com/v1."""
        return self.informer(Collector, namespace=namespace, labels=labels, fields=fields)
'''


def test_a_package_of_definitions_has_their_classes():
    made = package_of_definitions(definitions("collector"))
    assert sorted(made) == ["__init__.py", "clientset.py", "informers.py", "kinds.py", "listers.py", "types.py"]
    assert made["informers.py"] == INFORMERS
    assert "class Collector(crd.CustomResource, kw_only=True):" in made["types.py"]
    assert "from .types import Collector\n" in made["kinds.py"]


def test_a_package_of_classes_imports_them():
    made = package_of_classes([crd_classes.Kiosk])
    assert "types.py" not in made
    assert "from crd_classes import Kiosk\n" in made["kinds.py"]


CLIENTSET = '''"""Clients of each kind.

For metrics.example.com. Made by `kapi generate client`.
"""

from dataclasses import dataclass

from kapi.client import Client
from kapi.client.kindclient import KindClient

from .kinds import Collector


class CollectorClient(KindClient[Collector]):
    """The verbs of collectors of metrics.example.com/v1 in one namespace, or in all."""


@dataclass(frozen=True, slots=True)
class Clientset:
    """A client for each kind.

    Where no namespace is given it is the object's own, else the client's; `kapi.client.ALL_NAMESPACES` is for lists
    and watches.
    """

    client: Client

    def collectors(self, namespace: str | None = None) -> CollectorClient:
        """The client of collectors of metrics.example.com/v1."""
        return CollectorClient(self.client, Collector, namespace)
'''


def test_a_clientset_names_kinds_and_leaves_the_verbs_to_the_client():
    assert package_of_definitions(definitions("collector"))["clientset.py"] == CLIENTSET


@pytest.mark.parametrize(
    ("options", "base"),
    [
        ({}, "KindVerbs"),
        ({"status": True}, "StatusVerbs"),
        ({"scale": Scale()}, "ScaleVerbs"),
        ({"status": True, "scale": Scale()}, "KindClient"),
    ],
    ids=["neither", "status", "scale", "both"],
)
def test_clients_have_the_verbs_that_the_server_has(options, base):
    @resource("verbs.example.dev/v1", **{"status": False, **options})
    class Sample(CustomResource):
        pass

    kinds = named(kinds_of_classes([importable(Sample)]))
    assert f"class SampleClient({base}[Sample]):" in "".join(clientset_package._client(kinds[0]))


def importable(cls):
    """A class as if it were at the top of this module."""
    cls.__qualname__ = cls.__name__
    globals()[cls.__name__] = cls
    return cls


def test_kinds_without_namespaces_are_not_asked_for_one():
    made = package_of_classes([crd_classes.LampV1])
    assert not any("namespace=" in source or "namespace:" in source for source in made.values())
    assert methods(made["listers.py"]) == {"LampLister": []}


def test_every_served_version_of_a_class_has_a_client_and_the_stored_one_the_plain_name():
    made = package_of_classes(LAMPS)
    found = methods(made["clientset.py"])
    assert found["Clientset"] == ["lamps", "lamps_v1beta1"]
    assert {"LampClient", "LampV1Beta1Client"} < set(found)


def test_every_served_version_of_a_definition_has_classes_and_a_client():
    made = package_of_definitions(definitions("route"))
    assert methods(made["informers.py"])["SharedInformers"] == ["trafficroutes", "trafficroutes_v1beta1"]
    assert "from .types import TrafficRoute\n" in made["kinds.py"]
    assert "from .types_v1beta1 import TrafficRoute as TrafficRouteV1Beta1\n" in made["kinds.py"]


def test_one_version_of_a_definition_is_chosen():
    made = package_of_definitions(definitions("route"), "v1beta1")
    assert methods(made["clientset.py"])["Clientset"] == ["trafficroutes_v1beta1"]
    assert "types_v1beta1.py" not in made
    with pytest.raises(NoTypes, match="has no version v9"):
        package_of_definitions(definitions("route"), "v9")


def test_the_same_kinds_make_the_same_text_in_whatever_order():
    assert package_of_classes(LAMPS) == package_of_classes([*reversed(LAMPS), *LAMPS])


# -- names ------------------------------------------------------------------------------------------------------------


def test_methods_of_kinds_hide_none_that_are_there():
    inherited = {name for cls in (Lister, SharedInformerFactory) for name in dir(cls) if not name.startswith("_")}
    assert inherited <= clientset_kinds.METHODS


def test_classes_of_kinds_hide_nothing_that_generated_modules_use():
    made = package_of_classes([crd_classes.Kiosk])
    for name in ("clientset.py", "informers.py", "listers.py"):
        for node in ast.parse(made[name]).body:
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = {alias.name for alias in node.names} - {"dataclass"}
                assert names <= clientset_kinds.CLASSES


@pytest.mark.parametrize(
    "kind, method, stem",
    [
        (served(), "networks", "Network"),
        (served(version="v1beta1", storage=False), "networks_v1beta1", "NetworkV1Beta1"),
        (served(version="v1-rc", storage=False), "networks_v1_rc", "NetworkV1Rc"),
        (served(plural="net-works"), "net_works", "Network"),
        (served(plural="informers"), "informers_", "Network"),
        (served(plural="class"), "class_", "Network"),
        (served(kind="VPC"), "vpcs", "VPC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_come_from_the_kind_and_its_version(kind, method, stem):
    assert (kind.method, kind.stem) == (method, stem)


@pytest.mark.parametrize(
    "kinds, classes",
    [
        ([served("Client")], ["ClientKind"]),
        ([served("Zone"), served("ZoneClient")], ["ZoneClientKind", "Zone"]),
        ([served(), served(module="old", version="v1beta1", storage=False)], ["Network", "NetworkV1Beta1"]),
        ([served(version="v1alpha1", storage=False), served(module="new")], ["Network", "NetworkV1Alpha1"]),
    ],
    ids=["of the library", "of another kind's client", "of two versions", "of the stored version first"],
)
def test_a_class_whose_name_is_taken_gets_another(kinds, classes):
    assert [kind.cls for kind in named(kinds)] == classes


def test_no_generated_name_is_there_twice():
    kinds = named([served("Foo"), served("FooNamespace"), served("FooClient"), served("FooLister"), served("Lister")])
    names = [name for kind in kinds for name in (kind.cls, kind.client, kind.lister)]
    assert len(set(names)) == len(names)
    assert not clientset_kinds.CLASSES.intersection(names)


def test_two_kinds_of_one_name_are_refused():
    with pytest.raises(NoClientset, match=r"networks\.a\.dev/v1 .* networks\.b\.dev/v1 .* both be called networks"):
        named([served(), served(group="b.dev")])


def test_kinds_that_are_not_served_are_refused():
    with pytest.raises(NoClientset, match="none of the kinds is served"):
        package_of_classes([crd_classes.LampV1Alpha1])


def test_classes_that_cannot_be_imported_are_refused():
    @resource("a.example.dev/v1")
    class Inside(CustomResource):
        pass

    with pytest.raises(NoClientset, match=r"<locals>\.Inside cannot be imported by that name"):
        package_of_classes([Inside])


# -- what tools say ---------------------------------------------------------------------------------------------------


def test_imports_are_sorted_as_linters_sort_them():
    wanted = [(".a", "Zone"), (".a", "Client as C"), (".a", "VPC"), ("typing", "Any"), ("x.v10", "A"), ("x.v2", "b")]
    assert imports(wanted) == [
        "from typing import Any",
        "",
        "from x.v2 import b",
        "from x.v10 import A",
        "",
        "from .a import VPC, Zone",
        "from .a import Client as C",
    ]
    assert exported(["Zone", "VPC", "ZIP2"]) == ['__all__ = ["VPC", "ZIP2", "Zone"]']


ODD = """
from kapi.api.crd import CustomResource, Scale, resource

@resource("odd.example.dev/v1")
class Client(CustomResource): ...

@resource("odd.example.dev/v1", scale=Scale(), status=True)
class VPC(CustomResource): ...

@resource("odd.example.dev/v2", kind="VPC", storage=False)
class VPC2(CustomResource): ...

@resource("odd.example.dev/v10", kind="VPC", storage=False)
class VPC10(CustomResource): ...

@resource("odd.example.dev/v1", plural="informers", scope="Cluster")
class AVeryLongNameForAKindThatMakesLinesOfCodeLongerThanTheyOughtToBe(CustomResource): ...
"""
OLD = """
from kapi.api.crd import CustomResource, resource

@resource("odd.example.dev/v1beta1", storage=False)
class Client(CustomResource): ...

@resource("odd.example.dev/v1beta1")
class Other(CustomResource): ...
"""
RULES = "ANN,B,D,E,F,I,N,PL,RUF,SIM,TC,UP,W"


@pytest.mark.slow
def test_linters_and_formatters_leave_it_alone(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "old.py").write_text(OLD)
    monkeypatch.syspath_prepend(tmp_path)
    odd, old = importlib.import_module("odd"), importlib.import_module("old")
    kinds = [one for module in (odd, old) for one in vars(module).values() if getattr(one, "naming", None)]
    samples = {
        "plain": package_of_classes([crd_classes.Kiosk, *LAMPS]),
        "strange": package_of_classes(kinds),
        "defined": package_of_definitions(definitions()),
    }
    for name, files in samples.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            if not file.startswith("types"):  # which have tests of their own
                (tmp_path / name / file).write_text(text)
    for name in ("odd", "old"):
        del sys.modules[name]
    check = ["ruff", "check", "--isolated", "--no-cache", "--line-length", "120", "--select", RULES]
    for tool in (
        [*check, "--ignore", "D203,D213,D401", *samples],
        ["ruff", "format", "--isolated", "--no-cache", "--line-length", "120", "--diff", *samples],
    ):
        done = subprocess.run([sys.executable, "-m", *tool], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
