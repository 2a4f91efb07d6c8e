"""The client lane installs and starts with the base dependencies alone."""

import os
import subprocess
import sys
from pathlib import Path

import kapi
import kapi.client

PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cryptography", "httptools", "uvloop", "typer", "click", "rich", "re2"}:
            raise ImportError(f"{name} is not a base dependency")

sys.meta_path.insert(0, Forbidden())
import kapi.client
from kapi.client import client, config, discovery, dynamic, mapper, rest, sync, typed
from kapi.client.auth import credentials, execplugin
from kapi.client.transport import interface, metrics, observer, proxy, ratelimit
print(sorted(name for name in sys.modules if name.startswith("kapi.api.builtin.") or name == "aiohttp"))
print(sorted(name for name in sys.modules if name.split(".")[:2][-1] in ("server", "registry", "storage") and name.startswith("kapi.")))
"""


def test_client_needs_only_base_dependencies_no_server_and_no_kinds():
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "[]"]


def test_public_names_are_these():
    assert kapi.client.__all__ == [
        "ALL_NAMESPACES",
        "DELETED",
        "APIResource",
        "AnswerError",
        "Client",
        "ClientConfig",
        "ClientError",
        "ConfigError",
        "ConnectError",
        "ConnectionLost",
        "DiscoveryClient",
        "DynamicClient",
        "KindClient",
        "NoMatch",
        "ObjectList",
        "RESTClient",
        "RESTMapper",
        "ResourceClient",
        "SyncClient",
        "TransportError",
        "TransportTimeout",
        "WaitTimeout",
        "Watch",
        "WatchEvent",
        "error_from_status",
        "retry_on_conflict",
    ]
