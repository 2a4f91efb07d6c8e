"""What type checkers know about managers: `manager_types.py`, read by mypy as a user's program would be."""

from pathlib import Path

import pytest

from type_checks import mypy


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_type_checkers_see_the_classes_of_the_user_in_caches():
    sample = Path(__file__).with_name("manager_types.py")
    done = mypy(sample.parent, sample.name)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr
