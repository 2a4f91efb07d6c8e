"""The examples of the page about testing operators are tests, and pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/how-to/testing-operators.md"


@pytest.mark.timeout(300)
def test_the_examples_of_the_page_pass(tmp_path):
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == len({name for name, _ in blocks}) == PAGE.read_text().count("```python") > 5
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "KAPI"))}
    plugins = ["-p", "kapi.testing.pytest_plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
    options = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-W", "error"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # Hypothesis tries the same examples in every run of a CI.
        env={**environ, "CI": "true", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "10 passed" in ran.stdout
