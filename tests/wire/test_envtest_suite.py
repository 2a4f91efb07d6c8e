"""A suite in Go as kubebuilder lays it out, on the executables of `kapi envtest-assets` and on the real ones.

The suite is in tests/wire/go/envtest. It starts the control plane itself, installs a definition, runs a manager with a
reconciler and a webhook, adds a user and stops everything; nothing in it knows what it runs on.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from kapi_process import KAPI

from peers import PEERS, peer

pytestmark = pytest.mark.peers

SECONDS = 300
SUITE = Path(__file__).parent / "go" / "envtest"
TESTS = {
    "TestReconcilerMakesAConfigMapAndReportsStatus",
    "TestSchemaRefuses",
    "TestWebhookRefuses",
    "TestWebhookDefaults",
    "TestAddUserMayDoWhatRolesAllow",
    "TestGarbageCollectionAndNamespaceDeletion",
}


def passed(assets: Path, **more: str) -> set[str]:
    """The tests of the suite that pass; none may fail."""
    done = subprocess.run(
        [peer(PEERS / "bin/envtest-suite", "envtest-suite"), "-test.v"],
        cwd=SUITE,
        env={**os.environ, "KUBEBUILDER_ASSETS": str(assets), **more},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("--- PASS: ")]
    return {line[2] for line in lines}


def test_the_suite_passes_on_the_executables_of_kapi(tmp_path: Path) -> None:
    written = subprocess.run([KAPI, "envtest-assets", tmp_path / "assets"], capture_output=True, text=True, check=True)
    # One more than on the real ones: kube-apiserver alone collects nothing.
    assert passed(Path(written.stdout.strip()), SUITE_HAS_CONTROLLERS="true") == TESTS


def test_the_suite_passes_on_the_real_executables() -> None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        pytest.skip("no real API server to test against: KUBEBUILDER_ASSETS is not set")
    assert passed(Path(assets)) == TESTS - {"TestGarbageCollectionAndNamespaceDeletion"}
