"""`kapi generate`: what it prints, what it writes, and what it says when it cannot."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kapi.codec import yaml

NETWORKS = '''
    """Networks."""

    from typing import Annotated

    import msgspec

    from kapi.api.crd import Column, CustomResource, Model, resource


    class NetworkSpec(Model):
        """What is wanted."""

        cidr: Annotated[str, msgspec.Meta(pattern=r"^[0-9./]+$")]
        """The addresses."""
        mtu: int = 1500


    @resource("samples.example.com/v1", short_names=("net",), columns=(Column("CIDR", ".spec.cidr"),))
    class Network(CustomResource):
        """A network."""

        spec: NetworkSpec


    @resource("samples.example.com/v1beta1", kind="Network", short_names=("net",), storage=False)
    class NetworkV1Beta1(CustomResource):
        spec: dict[str, str]


    @resource("samples.example.com/v1", scope="Cluster")
    class Zone(CustomResource):
        pass
'''
NETWORK = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: networks.samples.example.com
spec:
  group: samples.example.com
  names:
    kind: Network
    listKind: NetworkList
    plural: networks
    shortNames:
    - net
    singular: network
  scope: Namespaced
  versions:
  - additionalPrinterColumns:
    - jsonPath: .spec.cidr
      name: CIDR
      type: string
    name: v1
    schema:
      openAPIV3Schema:
        description: A network.
        properties:
          apiVersion:
            type: string
          kind:
            type: string
          metadata:
            type: object
          spec:
            description: What is wanted.
            properties:
              cidr:
                description: The addresses.
                pattern: ^[0-9./]+$
                type: string
              mtu:
                default: 1500
                format: int64
                type: integer
            required:
            - cidr
            type: object
        required:
        - spec
        type: object
    served: true
    storage: true
"""


@pytest.fixture
def generate(tmp_path, monkeypatch, run_kapi):
    """Runs `kapi generate` in a folder with the module `networks`; returns the exit status, the output, the errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "networks.py").write_text(textwrap.dedent(NETWORKS))
    before, path = set(sys.modules), list(sys.path)

    def run(*arguments, stdin=None):
        out, err, code = run_kapi("generate", *arguments, stdin=stdin)
        return code, out, err

    yield run
    assert sys.path == path
    for name in set(sys.modules) - before:
        if not name.startswith(("kapi", "re2", "_pytest")):
            del sys.modules[name]


def test_a_class_is_printed_as_a_definition(generate):
    assert generate("crds", "networks:Network") == (0, NETWORK, "")


def test_a_module_is_printed_as_documents(generate):
    status, out, _ = generate("crds", "networks")
    assert status == 0
    networks, zones = yaml.decode_all(out.encode())
    assert [version["name"] for version in networks["spec"]["versions"]] == ["v1", "v1beta1"]
    assert zones["spec"]["scope"] == "Cluster"
    assert out.count("---\n") == 1


def test_definitions_are_written_to_a_folder(generate, tmp_path):
    status, out, _ = generate("crds", "networks:Network", "networks:Zone", "--output-dir", tmp_path / "a" / "b")
    assert status == 0
    assert out.splitlines() == [
        str(tmp_path / "a/b/networks.samples.example.com.yaml"),
        str(tmp_path / "a/b/zones.samples.example.com.yaml"),
    ]
    assert (tmp_path / "a/b/networks.samples.example.com.yaml").read_text() == NETWORK


def test_classes_are_printed_of_definitions(generate, tmp_path):
    (tmp_path / "crd.yaml").write_text(NETWORK)
    status, out, err = generate("types", "crd.yaml")
    assert (status, err) == (0, "")
    assert '@crd.resource("samples.example.com/v1", short_names=("net",)' in out
    assert '    cidr: Annotated[str, msgspec.Meta(pattern="^[0-9./]+$")]\n    """The addresses."""\n' in out


def test_there_and_back(generate, tmp_path):
    (tmp_path / "crd.yaml").write_text(NETWORK)
    assert generate("types", "crd.yaml", "--output", "again.py") == (0, "", "")
    assert generate("crds", "again") == (0, NETWORK, "")


def test_definitions_are_read_from_standard_input_and_other_objects_passed_over(generate):
    other = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"
    status, out, _ = generate("types", "-", stdin=NETWORK + other)
    assert status == 0
    assert "class Network(crd.CustomResource, kw_only=True):" in out


def test_a_version_is_chosen(generate):
    _, both, _ = generate("crds", "networks:Network", "networks:NetworkV1Beta1")
    status, out, _ = generate("types", "-", "--version", "v1beta1", stdin=both)
    assert status == 0
    assert "storage=False" in out
    assert "    spec: dict[str, str]\n" in out


def test_the_example_of_the_documentation_works(generate, tmp_path):
    page = (Path(__file__).parents[3] / "docs/how-to/custom-types.md").read_text()
    (tmp_path / "example.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    status, out, err = generate("crds", "example")
    assert (status, err) == (0, "")
    assert yaml.decode(out.encode())["metadata"]["name"] == "networks.samples.example.com"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["crds", "nowhere"], "error: there is no module nowhere, neither here nor installed"),
        (["crds", "networks:Nothing"], "error: networks has no Nothing"),
        (["crds", "networks:Annotated"], "error: networks:Annotated is no custom kind"),
        (["crds", "networks:NetworkSpec"], "error: networks:NetworkSpec is no custom kind"),
        (
            ["crds", "networks:CustomResource"],
            "error: networks: CustomResource has no kind: decorate it with @resource(...)",
        ),
        (["crds", "networks:NetworkV1Beta1"], "error: exactly one version of Network must be stored, not 0"),
        (["crds", "broken"], "error: Broken.spec.field: complex has no schema"),
        (
            ["crds", "refused"],
            'error: boxes.b: spec.group: Invalid value: "b": should be a domain with at least one dot',
        ),
        (["crds", "networks", "--output-dir", "networks.py"], "error: networks.py: File exists"),
        (["types", "nowhere.yaml"], 'error: the path "nowhere.yaml" does not exist'),
        (["types", "empty.yaml"], "error: no CustomResourceDefinition in empty.yaml"),
        (["types", "crd.yaml", "--version", "v9"], "error: networks.samples.example.com has no version v9; it has v1"),
        (["types", "old.yaml"], "error: old.yaml: x: apiextensions.k8s.io/v1alpha1 is not known"),
        (["types", "crd.yaml", "--output", "no/such/folder.py"], "error: no/such/folder.py: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said_in_one_line(generate, tmp_path, arguments, message):
    (tmp_path / "crd.yaml").write_text(NETWORK)
    (tmp_path / "empty.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    (tmp_path / "old.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n"
    )
    head = "from kapi.api.crd import *\n"
    (tmp_path / "broken.py").write_text(
        f"{head}class Spec(Model):\n    field: complex\n"
        "@resource('a.b/v1')\nclass Broken(CustomResource):\n    spec: Spec\n"
    )
    (tmp_path / "refused.py").write_text(f"{head}@resource('b/v1')\nclass Box(CustomResource): pass\n")
    status, out, err = generate(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_several_reasons_are_several_lines(generate, tmp_path):
    (tmp_path / "worse.py").write_text(
        "from kapi.api.crd import *\n@resource('b/v1', plural='Boxes')\nclass Box(CustomResource): pass\n"
    )
    status, _, err = generate("crds", "worse")
    assert status == 1
    assert all(line.startswith("error: Boxes.b: ") for line in err.splitlines())
    assert len(err.splitlines()) > 1


def test_the_command_line_starts_without_what_it_does_not_use():
    code = (
        "import sys, kapi.cli.main; print([m for m in sys.modules if m.startswith(('kapi.scaffold', 'kapi.registry'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
