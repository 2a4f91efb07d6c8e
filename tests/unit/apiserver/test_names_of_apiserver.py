"""The names that authors of API servers import: they stay."""

import kapi.apiserver

NAMES = [
    "ApiServer",
    "Column",
    "CustomResource",
    "Event",
    "ListOptions",
    "Model",
    "Page",
    "Request",
    "Resource",
    "Rule",
    "ServiceReference",
    "Stored",
    "api_service",
    "resource",
]


def test_the_names_are_frozen():
    assert kapi.apiserver.__all__ == NAMES
    assert all(getattr(kapi.apiserver, name) is not None for name in NAMES)
