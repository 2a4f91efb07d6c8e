"""What the tests of controllers have in common."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_logging():
    """Logging as it is before anybody sets it up: other tests may have."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)
