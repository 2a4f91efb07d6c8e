"""A control plane whose objects informers follow; it has no ConfigMaps of its own."""

import pytest

from kapi.client import ClientConfig
from live_plane import NO_MAPS, live_plane


@pytest.fixture(scope="session")
def admin(tmp_path_factory):
    """The admin's config of a running control plane."""
    with live_plane(tmp_path_factory.mktemp("informer"), NO_MAPS) as kubeconfig:
        yield ClientConfig.from_kubeconfig(kubeconfig)
