"""The control plane of the tests knows the kinds of the operator; see `kapi.testing`."""

from typing import Any

import pytest

from vpc.generated import KINDS


@pytest.fixture(scope="session")
def kapi_environment_options() -> dict[str, Any]:
    return {"crds": list(KINDS)}
