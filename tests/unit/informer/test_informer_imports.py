"""The informer package installs and starts with the base dependencies alone, and touches no socket by itself."""

import os
import subprocess
import sys
from pathlib import Path

import kapi
import kapi.informer

PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cryptography", "httptools", "uvloop", "typer", "click", "rich", "re2"}:
            raise ImportError(f"{name} is not a base dependency")

sys.meta_path.insert(0, Forbidden())
import kapi.informer
print(sorted(name for name in sys.modules if name.split(".")[:2][-1] in ("server", "registry", "storage") and name.startswith("kapi.")))
"""


def test_informer_needs_only_base_dependencies_and_no_server():
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_public_names_are_these():
    assert kapi.informer.__all__ == [
        "Cached",
        "CachedLister",
        "Handler",
        "Handlers",
        "IndexFunction",
        "Indexer",
        "Lister",
        "ListerWatcher",
        "NamespaceLister",
        "Pace",
        "Page",
        "PartialObjectMetadata",
        "RESTSource",
        "Reflector",
        "Registration",
        "SharedInformer",
        "SharedInformerFactory",
        "by_label",
        "by_namespace",
        "by_owner_uid",
        "without_managed_fields",
    ]
