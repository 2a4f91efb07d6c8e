"""Which versions of etcd are refused, and how."""

from __future__ import annotations

import pytest

from kapi.storage.etcd.messages import Status
from kapi.storage.etcd.opening import _check_versions
from kapi.storage.interface import StorageUnavailable


def status(version: str) -> Status:
    return Status(version, 0, 0, 0, 0, 0, is_learner=False)


@pytest.mark.parametrize("version", ["3.3.27", "3.4.30", "3.5.12", "2.3.8", "3.4"])
def test_an_old_version_is_refused_in_words(version: str) -> None:
    with pytest.raises(StorageUnavailable) as caught:
        _check_versions([status("3.6.8"), None, status(version)])
    assert str(caught.value) == (
        f"etcd {version} is too old: its watches can lose events when they are asked for progress; "
        "expected at least one of 3.4.31, 3.5.13, or a newer minor version"
    )


@pytest.mark.parametrize("version", ["3.4.31", "3.5.13", "3.5.21", "3.6.0", "3.6.0-rc.1", "3.7.0", "4.0.0"])
def test_a_version_whose_progress_can_be_relied_on_is_accepted(version: str) -> None:
    _check_versions([status(version), None])
