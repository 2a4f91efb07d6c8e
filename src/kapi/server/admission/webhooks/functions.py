"""Webhooks that are functions of the program that embeds this server: the same review, without HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import GroupVersionKind, Object

    Review = Callable[[Object], Awaitable[Object]]
    """Returns the AdmissionReview that answers one."""


class Function(NamedTuple):
    """A function, and the requests it is called for."""

    mutates: bool
    kind: GroupVersionKind
    """The kind of its objects: they are converted to it."""
    webhook: Object
    """The webhook as a configuration would have it, with rules for any resource and without clientConfig."""
    review: Review


CONFIGURATION = "in-process"
"""The name that messages, metrics and audit annotations have for the configuration of all functions."""
