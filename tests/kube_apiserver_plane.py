"""A real kube-apiserver with its etcd, for tests of what must work on both: from the folder KUBEBUILDER_ASSETS names."""

import contextlib

import pytest
import yaml

from bench import kube_apiserver


@contextlib.contextmanager
def kube_apiserver_plane(folder, *, admission=None):
    """A running kube-apiserver; gives the path of an admin's kubeconfig. Skips the test where there is none.

    `admission` are other flags for its admission plug-ins than those of the benchmarks.
    """
    found, reason = kube_apiserver.find()
    if found is None:
        pytest.skip(f"no real API server to test against: {reason}")
    if admission is not None:
        found.admission = admission
    running = found.start(folder)
    try:
        address = running.address
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "it",
                    "cluster": {
                        "server": f"https://{address.host}:{address.port}",
                        "certificate-authority": address.authority,
                    },
                }
            ],
            "users": [{"name": "it", "user": {"client-certificate": address.certificate, "client-key": address.key}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield path
    finally:
        running.stop()
