"""The fixtures that all tests of controllers use."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_logging():
    """Logging as it is before a program configures it: other tests may have."""
    before, is_configured = structlog.get_config(), structlog.is_configured()
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if is_configured:
        structlog.configure(**before)
