"""The container file and its recipes, as far as they can be checked without a container engine.

That the image builds and runs is not tested: neither an engine nor a registry can be reached from here.
"""

import json
import pathlib
import re

import pytest

from kapi.cli.command import Parser
from kapi.cli.main import add_up_options
from kapi.codec import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions():
    """The instructions of the Dockerfile, as pairs of name and argument."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def argument(name):
    return [value for instruction, value in instructions() if instruction == name][-1]


def test_the_file_has_known_instructions_and_begins_with_a_base_image():
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "FROM"
    stages = [re.search(r" AS (\S+)$", value) for name, value in found if name == "FROM"]
    assert [stage[1] for stage in stages if stage] == ["build"]
    assert stages[-1] is None


def test_what_is_copied_is_there_and_is_sent_to_the_engine():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for value in (value for name, value in instructions() if name == "COPY" and not value.startswith("--from")):
        *sources, _ = value.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored
    # What the build hook makes is made in the container.
    assert "src/kapi/api/builtin" in ignored


def test_everything_that_the_build_reads_is_copied():
    copied = {source for name, value in instructions() if name == "COPY" for source in value.split()[:-1]}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "generate", "src"} <= copied


def test_the_command_is_one_that_kapi_understands():
    assert json.loads(argument("ENTRYPOINT")) == ["kapi"]
    command, *options = json.loads(argument("CMD"))
    assert command == "up"
    parser = Parser("kapi up", "", "")
    add_up_options(parser)
    given = parser.parse_args(options)
    assert given.bind.endswith(f":{argument('EXPOSE')}")
    assert str(given.data_dir) == argument("VOLUME") == argument("WORKDIR")
    assert f"127.0.0.1:{argument('EXPOSE')}/readyz" in argument("HEALTHCHECK")
    compile(json.loads(argument("HEALTHCHECK").split("CMD ", 1)[1])[2], "health check", "exec")


def test_the_process_is_not_root():
    assert argument("USER") == "kapi"


def test_the_compose_file_builds_here_and_runs_an_example():
    [document] = yaml.decode_all((ROOT / "examples/compose/compose.yaml").read_bytes())
    assert set(document) == {"services", "volumes"}
    for service in document["services"].values():
        assert (ROOT / "examples/compose" / service["build"] / "Dockerfile").exists()
    command = document["services"]["operator"]["entrypoint"]
    module = command[2].partition(":")[0]
    assert (ROOT / "examples" / f"{module}.py").exists()
    assert "--tls-san=kapi" in json.loads(argument("CMD")), "the operator connects by the name of the service"


@pytest.mark.parametrize("page", ["docs/how-to/container.md"])
def test_the_page_names_the_address_that_the_kubeconfig_has(page):
    assert f'"https://127.0.0.1:{argument("EXPOSE")}"' in (ROOT / page).read_text()
