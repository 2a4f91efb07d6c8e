"""`kapi generate client`: what it writes where, and what it says when it cannot."""

import sys
import textwrap
from pathlib import Path

import pytest

CRDS = Path(__file__).parents[2] / "crds"
NETWORKS = """
    from kapi.api.crd import CustomResource, resource


    @resource("samples.example.com/v1")
    class Network(CustomResource):
        cidr: str = ""


    @resource("samples.example.com/v1beta1", kind="Network", storage=False)
    class NetworkV1Beta1(CustomResource):
        cidr: str = ""


    @resource("samples.example.com/v1alpha1", kind="Network", storage=False, served=False)
    class NetworkV1Alpha1(CustomResource):
        pass


    @resource("others.example.com/v1", kind="Network")
    class Other(CustomResource):
        pass
"""
CLASSES = ["networks:Network", "networks:NetworkV1Beta1"]
FILES = ["__init__.py", "clientset.py", "informers.py", "kinds.py", "listers.py"]


@pytest.fixture
def generate(tmp_path, monkeypatch, run_kapi):
    """Runs `kapi generate client` in a folder with the module `networks`; the exit status, the output, the errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "networks.py").write_text(textwrap.dedent(NETWORKS))
    before, path = set(sys.modules), list(sys.path)

    def run(*arguments, stdin=None):
        out, err, code = run_kapi("generate", "client", *arguments, stdin=stdin)
        return code, out, err

    yield run
    assert sys.path == path
    for name in set(sys.modules) - before:
        if not name.startswith(("kapi", "re2", "_pytest")):
            del sys.modules[name]


def test_a_package_of_classes_is_written_and_its_files_are_named(generate, tmp_path):
    status, out, err = generate(*CLASSES, "--package", "samplecrd", "--output-dir", "a/b")
    assert (status, err) == (0, "")
    assert out.splitlines() == [f"a/b/samplecrd/{name}" for name in FILES]
    assert sorted(path.name for path in (tmp_path / "a/b/samplecrd").iterdir()) == FILES
    assert "from networks import Network, NetworkV1Beta1\n" in (tmp_path / "a/b/samplecrd/kinds.py").read_text()


def test_a_package_is_written_here_unless_said_otherwise(generate):
    assert generate(*CLASSES, "--package", "samplecrd")[1].startswith("samplecrd/__init__.py\n")


def test_a_package_of_definitions_has_their_classes(generate, tmp_path):
    status, out, _ = generate(CRDS / "certificate-crd.yaml", CRDS / "route-crd.yaml", "--package", "defined")
    assert status == 0
    assert out.splitlines() == [f"defined/{name}" for name in (*FILES, "types.py", "types_v1beta1.py")]
    assert "def certificates(" in (tmp_path / "defined/clientset.py").read_text()


def test_one_version_of_definitions_is_chosen(generate, tmp_path):
    route = (CRDS / "route-crd.yaml").read_text()
    status, out, _ = generate("-", "--version", "v1beta1", "--package", "defined", stdin=route)
    assert status == 0
    assert out.splitlines() == [f"defined/{name}" for name in (*FILES, "types.py")]
    assert "routes.example.com/v1beta1" in (tmp_path / "defined/types.py").read_text()


def test_writing_again_replaces_what_was_written(generate, tmp_path):
    every = [*sorted(CRDS.glob("*-crd.yaml")), "--package", "defined"]
    assert generate(*every)[0] == 0
    first = {path.name: path.read_text() for path in (tmp_path / "defined").iterdir()}
    assert generate(CRDS / "route-crd.yaml", "--package", "defined")[0] == 0
    assert generate(*every)[0] == 0
    assert {path.name: path.read_text() for path in (tmp_path / "defined").iterdir()} == first


def test_a_file_that_the_command_did_not_write_is_not_replaced(generate, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "listers.py").write_text("MINE = 1\n")
    status, out, err = generate(*CLASSES, "--package", "mine")
    assert (status, out) == (1, "")
    assert err == (
        "error: mine/listers.py exists and was not made by this command: remove it, or choose another name\n"
    )
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["listers.py"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere", "--package", "p"], "error: there is no module nowhere, neither here nor installed"),
        (["nowhere.yaml", "--package", "p"], 'error: the path "nowhere.yaml" does not exist'),
        ([*CLASSES, "crd.yaml", "--package", "p"], "error: clients are made from classes or from files, not from both"),
        ([*CLASSES, "--package", "a.b"], "error: 'a.b' cannot be the name of a package"),
        ([*CLASSES, "--package", "class"], "error: 'class' cannot be the name of a package"),
        ([*CLASSES, "--package", "networks"], "error: the package would hide the module of networks.Network"),
        ([*CLASSES, "--package", "p", "--version", "v1"], "error: --version is for definitions; of classes, name"),
        (["networks:NetworkV1Alpha1", "--package", "p"], "error: none of the kinds is served"),
        (["networks", "--package", "p"], "error: networks.samples.example.com/v1 (Network) and networks.others."),
        ([*CLASSES, "--package", "p", "--output-dir", "networks.py"], "error: networks.py/p"),
        (
            [str(CRDS / "route-crd.yaml"), "--package", "p", "--version", "v9"],
            "error: trafficroutes.routes.example.com has no version v9; it has v1, v1beta1",
        ),
        ([str(CRDS / "route-good.yaml"), "--package", "p"], "error: no CustomResourceDefinition in "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_said_in_one_line_and_nothing_is_written(generate, tmp_path, arguments, message):
    status, out, err = generate(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert not (tmp_path / "p").exists()
