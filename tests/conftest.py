"""What all tests share. Being here also puts this directory on the path, for `api_client` and `virtual_time`."""

from hypothesis import settings

# How long an example takes says nothing about whether it is right, and much about what else the machine does.
settings.register_profile("kapi", deadline=None)
settings.load_profile("kapi")
