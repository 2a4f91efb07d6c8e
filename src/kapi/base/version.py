"""The version of Kapi, and the form it is installed in, where every package can read them.

Kapi is released in two forms: plain Python, and with the modules that most requests go through compiled by mypyc.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES

VERSION = "0.1.0.dev0"


def compiler() -> str:
    """What the modules that requests go through are compiled by: `mypyc`, or for plain Python the interpreter."""
    from kapi.base import clock

    return "mypyc" if (clock.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES)) else sys.implementation.name


def described() -> str:
    """The version and the form, as `kapi version` prints them."""
    made_by = compiler()
    return f"{VERSION} ({'compiled by mypyc' if made_by == 'mypyc' else 'plain Python'})"
