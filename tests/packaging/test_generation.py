"""The generators run when something changed, not otherwise, and say what to do when their input is missing."""

import importlib.util
import pathlib
import shutil
import tomllib
import zipfile

import pytest

from generate import build

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """A source tree with nothing in it but the generators and the folder of the schemas."""
    shutil.copytree(ROOT / "generate", tmp_path / "generate", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src/kapi/schema/builtin").mkdir(parents=True)
    return tmp_path


def test_generating_again_without_changes_writes_nothing(tree):
    assert build.generate(tree) is True
    assert (tree / build.SCHEMAS).stat().st_size > 10_000
    assert (tree / build.CLASSES / "core_v1.py").is_file()
    assert build.generate(tree) is False


def test_a_changed_generator_or_a_missing_output_is_generated_again(tree):
    build.generate(tree)
    with (tree / "generate/types.py").open("a", encoding="utf-8") as source:
        source.write("# changed\n")
    assert build.generate(tree) is True
    (tree / build.SCHEMAS).unlink()
    assert build.generate(tree) is True
    assert (tree / build.SCHEMAS).is_file()


def test_generated_outputs_are_deterministic(tree):
    build.generate(tree)
    first = {path: path.read_bytes() for path in (tree / "src").rglob("*") if path.is_file()}
    build.generate(tree, force=True)
    assert first == {path: path.read_bytes() for path in (tree / "src").rglob("*") if path.is_file()}


def test_stale_generated_classes_are_removed(tree):
    stale = tree / build.CLASSES / "gone_v1.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("", encoding="utf-8")
    build.generate(tree)
    assert not stale.exists()


def test_a_missing_package_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(build.MissingDefinitions, match=r"kubernetes-validate is not installed.*pip install"):
        build.definitions_source()


def test_definitions_are_read_from_a_wheel_that_is_not_installed(monkeypatch, tmp_path):
    wheel = tmp_path / "kubernetes_validate-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kubernetes_validate/__init__.py", "raise RuntimeError('imported')")
        archive.writestr(f"kubernetes_validate/{build.DEFINITIONS}", b"{}")
    monkeypatch.syspath_prepend(wheel)
    assert build.definitions_source() == b"{}"


def test_build_and_development_use_the_same_definitions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [line for line in project["build-system"]["requires"] if line.startswith(build.PACKAGE)]
    assert len(wanted) == 1
    assert wanted[0] in project["project"]["optional-dependencies"]["dev"]
