"""The text of a scaffolded project, compared with the one in `project.golden`.

    KAPI_UPDATE_GOLDEN=1 python -m pytest tests/unit/scaffold/test_scaffold_golden.py

writes it anew; read the difference before it is committed.
"""

import os
from pathlib import Path

from kapi.base.version import VERSION
from kapi.cli.main import run

GOLDEN = Path(__file__).with_name("project.golden")
COMMANDS = (
    "init --domain=example.com --repo=github.com/example/vpc-operator",
    "create api --group network --version v1 --kind Vpc --resource=true --controller=true",
    "create api --group network --version v2 --kind Vpc",
    "create webhook --group network --version v1 --kind Vpc --defaulting --programmatic-validation --conversion",
)


def test_the_files_of_a_project_are_those_that_were_reviewed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    for line in COMMANDS:
        assert run(line.split()) == 0
    found = "".join(
        f"==== {path.relative_to(tmp_path)}\n{path.read_text()}"
        for path in sorted(tmp_path.rglob("*"))
        if path.is_file()
    ).replace(f"kapiVersion: {VERSION}", "kapiVersion: (this version)")
    if os.environ.get("KAPI_UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
