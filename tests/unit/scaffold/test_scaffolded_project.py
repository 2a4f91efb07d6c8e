"""A scaffolded project is a good one: its tests and its checks do what they should, and its soak test finds a leak."""

import re
import shutil
import sys

import pytest

from scaffolded import kapi, make, run
from type_checks import shared_cache

COMMANDS = (
    "init --domain=example.com --repo=github.com/example/vpc-operator",
    "create api --group network --version v1 --kind Vpc --resource=true --controller=true",
    "create webhook --group network --version v1 --kind Vpc --defaulting --programmatic-validation",
    "create api --group network --version v2beta1 --kind Vpc",
    "create webhook --group network --version v1 --kind Vpc --conversion",
)
LONG_NAMES = "create api --version v1 --kind VirtualPrivateNetworkPeeringLink --namespaced=false"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    kapi(folder, *COMMANDS)
    return folder


@pytest.fixture
def copy(project, tmp_path):
    return shutil.copytree(project, tmp_path / "copy")


def test_the_project_passes_its_own_linters_and_type_checks(copy):
    kapi(copy, LONG_NAMES)
    with shared_cache() as cache:
        status, output = make(copy, "lint", "check", MYPY_CACHE_DIR=str(cache))
    assert status == 0, output
    assert "Success: no issues found" in output


def test_the_tests_of_the_project_pass_and_measure_its_permissions(copy):
    status, output = make(copy, "rbac")
    assert status == 0, output
    assert "The declared permissions are those that build/requests.jsonl needs." in output

    controller = copy / "vpc_operator/controllers/vpc_controller.py"
    text = controller.read_text()
    changed = text.replace('(Vpc, "status"): ["update"]', '"pods": ["get"]')
    assert changed != text
    controller.write_text(changed)
    status, output = run(copy, sys.executable, "-m", "kapi", "generate", "rbac", "--check=build/requests.jsonl")
    assert status == 1
    assert output.splitlines() == [
        "error: missing: update vpcs.network.example.com/status: it was asked for, and is not declared",
        "error: excess: get pods: it is declared, and no test asked for it",
    ]


def test_the_soak_test_of_the_project_finds_a_planted_leak(copy):
    controller = copy / "vpc_operator/controllers/vpc_controller.py"
    text = controller.read_text()
    leaky = text.replace("class VpcReconciler", "SEEN = []\n\n\nclass VpcReconciler").replace(
        "        generation = ", "        SEEN.append(vpc)\n        generation = ", 1
    )
    assert leaky.count("SEEN") == 2
    controller.write_text(leaky)
    status, output = make(copy, "soak", SOAK_ROUNDS="3", SOAK_OBJECTS="5")
    assert status != 0
    assert re.search(r"LeakFound: after 17 rounds these still grow, .*:\nE +\d+ bytes a round: ", output), output
