from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from storage_backends import BACKENDS, Backend, Subject

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """Every backend."""
    backend: Backend = request.param
    return Subject(backend, tmp_path / "data")


@pytest.fixture(params=[b for b in BACKENDS if not b.is_shared], ids=lambda backend: backend.name)
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """Every backend that only one server uses."""
    backend: Backend = request.param
    return Subject(backend, tmp_path / "data")


@pytest.fixture(params=[b for b in BACKENDS if b.is_durable], ids=lambda backend: backend.name)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    """Every backend whose data is still there when it is opened again."""
    backend: Backend = request.param
    return Subject(backend, tmp_path / "data")
