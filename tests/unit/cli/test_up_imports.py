"""What `kapi up` has imported when it is ready: imports are most of a start, and most of the memory of an empty server."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

THIRD_PARTY = {
    "cryptography": "makes the certificates of a first start, and verifies those of clients",
    "httptools": "reads HTTP",
    "msgspec": "reads and writes JSON",
    "prometheus_client": "the meters of the server",
    "re2": "the patterns of schemas",
    "structlog": "writes logs",
    "typing_extensions": "msgspec imports it",
    "uvloop": "the event loop",
}
"""The packages, apart from the standard library, that may be imported when a server is ready, and what each is for."""

NOT_EVERYWHERE = {"typing_extensions"}
"""Packages that only some versions of Python need."""

LATER = {
    "kapi.apiserver": "for API servers of other programs",
    "kapi.client": "the built-in controllers are imported in a thread when the server is ready",
    "kapi.codec.yamldocument": "PyYAML: for the first body or file that is not JSON",
    "kapi.controller": "as kapi.client",
    "kapi.informer": "as kapi.client",
    "kapi.schema.addresses": "patterns with large character classes: for the first string of such a format",
    "kapi.schema.admission": "CEL: for the first policy",
    "kapi.schema.cel": "CEL: imported in a thread when the server is ready",
    "kapi.storage.encryption.storage": "for --encryption-provider-config",
    "kapi.storage.etcd.storage": "for --storage etcd://...",
}
"""Modules and packages that take long to import, and when they are."""

MOST_MODULES = 940
"""A module costs a third of a millisecond and 50 kB: to raise this is to decide that every start is slower."""

_RUN = """
import json, os, signal, sys

class Output:
    def write(self, text):
        if text.startswith("Ready at"):
            sys.__stdout__.write(json.dumps(sorted(name for name, module in sys.modules.items() if module is not None)))
            os.kill(os.getpid(), signal.SIGTERM)

    def flush(self):
        sys.__stdout__.flush()

sys.stdout = Output()
from kapi.cli.entry import main
main()
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("up") / "data"
    command = [sys.executable, "-c", _RUN, "up", "--data-dir", str(folder), "--bind", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=100)
    return frozenset(json.loads(done.stdout))


def test_every_package_of_others_that_a_start_imports_has_a_reason(imported):
    found = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"kapi", "kapi__mypyc"}
    # Extension modules bring modules of their own along (_cffi_backend, cython_runtime), and so do distributions
    # (Debian's sitecustomize).
    found = {name for name in found if not name.startswith(("_", "cython", "sitecustomize", "apport"))}
    assert sorted(found - set(THIRD_PARTY)) == []
    assert sorted(set(THIRD_PARTY) - found - NOT_EVERYWHERE) == []


def test_a_start_does_not_import_what_most_servers_do_not_need(imported):
    assert "kapi.controlplane.assemble" in imported
    assert [name for name in LATER if name in imported] == []


def test_the_number_of_modules_that_a_start_imports_is_bounded(imported):
    assert len(imported) <= MOST_MODULES
