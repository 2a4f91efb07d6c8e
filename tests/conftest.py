"""What all tests share. Being here also puts this directory on the path, for `api_client` and `virtual_time`."""

import os

from hypothesis import settings

# How long an example takes says nothing about whether it is right, and much about what else the machine does.
# CI judges a change by the same examples each time; the search for new ones is for developers' machines.
settings.register_profile("kapi", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "kapi")
