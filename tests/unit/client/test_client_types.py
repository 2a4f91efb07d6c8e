"""What type checkers know about the client: `client_types.py`, read by mypy as a user's program would be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kapi


@pytest.mark.slow
def test_type_checkers_see_the_classes_of_the_user(tmp_path):
    sample = Path(__file__).with_name("client_types.py")
    environment = {**os.environ, "MYPYPATH": str(Path(kapi.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, "--config-file=", f"--cache-dir={tmp_path}", str(sample)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=110,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
