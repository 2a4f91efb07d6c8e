"""A control plane to follow."""

import pytest

from kapi.client import ClientConfig
from live_plane import live_plane


@pytest.fixture(scope="session")
def admin(tmp_path_factory):
    """The admin's config of a running control plane."""
    with live_plane(tmp_path_factory.mktemp("informer")) as kubeconfig:
        yield ClientConfig.from_kubeconfig(kubeconfig)
