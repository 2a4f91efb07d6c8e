"""What type checkers know about the client: `client_types.py`, read by mypy as a user's program would be."""

from pathlib import Path

import pytest

from type_checks import mypy


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_type_checkers_see_the_classes_of_the_user():
    sample = Path(__file__).with_name("client_types.py")
    done = mypy(sample.parent, sample.name)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
