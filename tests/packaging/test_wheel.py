"""What people install: the source distribution builds, and its wheel works in virtual environments with nothing else.

Slow, because it installs real packages by name; everything it builds is below pytest's temporary directory.
"""

import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IMPORT_PACKAGES = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if module.name not in ("kapi.testing.pytest_plugin", "kapi.testing.stateful"):  # for pytest and hypothesis
            importlib.import_module(module.name)
"""


def run(*command):
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    out = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out], cwd=ROOT, check=True)
    (archive,) = out.glob("kapi-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(source_distribution, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    with tarfile.open(source_distribution) as archive:
        archive.extractall(out, filter="data")
    (tree,) = (path for path in out.iterdir() if path.is_dir())
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(tree))
    (built,) = out.glob("kapi-*.whl")
    return built


def environment(directory, requirement):
    """A virtual environment with one requirement installed; returns its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", str(directory))
    python = directory / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", requirement)
    return python


@pytest.fixture(scope="module")
def server(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("server"), f"{wheel}[server]")


@pytest.fixture(scope="module")
def base(wheel, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("base"), str(wheel))


def test_the_source_distribution_contains_generators_but_no_generated_files(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"generate/types.py", "generate/schemas.py", "hatch_build.py", "LICENSE", "src/kapi/py.typed"} <= names
    assert not [name for name in names if "api/builtin/" in name or name.endswith("definitions.bin")]
    assert not [name for name in names if name.startswith(("tests/", ".ci/", "bench/"))]


def test_the_wheel_contains_the_package_and_generated_files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"kapi/py.typed", "kapi/schema/builtin/definitions.bin", "kapi/api/builtin/core_v1.py"} <= names
    assert {"kapi/scaffold/templates/Makefile.tmpl", "kapi/scaffold/templates/package/types.py.tmpl"} <= names
    strangers = {name.partition("/")[0] for name in names} - {"kapi"}
    assert all(name.endswith(".dist-info") for name in strangers)
    assert not [name for name in names if name.endswith((".pyc", ".stamp"))]


def test_pytest_finds_the_plugin_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "[pytest11]\nkapi = kapi.testing.pytest_plugin\n" in archive.read(name).decode()


def test_schemas_are_a_resource_of_the_installed_package(server):
    program = (
        "import importlib.resources as r; print(len((r.files('kapi.schema.builtin') / 'definitions.bin').read_bytes()))"
    )
    assert int(run(str(server), "-c", program)) > 10_000


def test_typed_classes_work_when_installed(server):
    program = "import msgspec; from kapi.api.builtin import apps_v1; print(msgspec.json.encode(apps_v1.Deployment()).decode())"
    assert run(str(server), "-c", program).strip() == '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}'


def test_every_module_of_the_server_imports_with_the_server_extra(server):
    run(str(server), "-W", "error", "-c", IMPORT_PACKAGES, "kapi")


def test_the_command_line_runs(server):
    kapi = str(server.with_name("kapi"))
    assert re.search(r"\bup\b", run(kapi, "--help"))
    assert run(str(server), "-c", "import importlib.metadata as m; print(m.version('kapi'))").strip() in run(
        kapi, "version"
    )


def test_client_packages_import_with_only_the_base_dependencies(base):
    absent = "import importlib.util as u; print([n for n in ('cryptography', 're2', 'httptools', 'uvloop') if u.find_spec(n)])"
    assert run(str(base), "-c", absent).strip() == "[]"
    # The rest of `schema` is the server's: patterns of custom resources run on RE2, which comes with it.
    packages = [f"kapi.{name}" for name in ("api", "codec", "schema.builtin", "client", "informer", "controller")]
    run(str(base), "-W", "error", "-c", IMPORT_PACKAGES, *packages)
    run(str(base), "-W", "error", "-c", "from kapi import *")


def test_the_command_works_with_base_dependencies_and_names_the_missing_server_extra(base):
    kapi = base.parent / "kapi"
    assert run(str(kapi), "version") == run(str(kapi), "--version")
    assert "Start the control plane" in run(str(kapi), "--help")
    client = subprocess.run(
        [kapi, "get", "pods", "--server", "http://127.0.0.1:1"], capture_output=True, text=True, check=False
    )
    assert (client.returncode, client.stdout) == (1, "")
    assert "The connection to the server 127.0.0.1:1 was refused" in client.stderr
    server = subprocess.run([kapi, "up"], capture_output=True, text=True, check=False)
    assert server.returncode == 1
    expected = r"kapi up needs packages that are not installed \(\w+ is missing\): pip install 'kapi\[server\]'\n"
    assert re.fullmatch(expected, server.stderr)
