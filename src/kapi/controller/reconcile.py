"""The contract with the user: a reconciler is given a key, and makes actual state agree with the object of that name.

It gets the key of the object, not the change: several changes may have become one call, and a call may find nothing to
do. So it reads what is there now and acts on the difference. How it ends says when it wants to be called again:

    returns None or Result()             when something changes
    returns Result(requeue_after=30)     in 30 seconds, or sooner if something changes
    returns Result(requeue=True)         soon, later each time
    raises TerminalError                 when something changes; trying again would not help
    raises anything else                 soon, later each time

A key is never reconciled twice at the same time.

A reconciler whose parameter is annotated with the class that is reconciled is given the object instead of its key, and
is not called for one that is not there; what must happen before an object is deleted is done with a finalizer.

    async def reconcile(network: Network) -> Result | None: ...

A key need not be of an object: a controller may be keyed by any hashable type of the user's, such as a node name or a
frozen dataclass, see `builder`. `R` is that type in all annotations, and `Request` unless it is given.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from kapi.api.keys import ObjectKey

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from kapi.api.meta import GroupVersionKind
    from kapi.client.client import Client

Request = ObjectKey

if TYPE_CHECKING:
    # Defaults of type variables are part of the language from Python 3.13 on; type checkers know them in any version.
    R = DefaultTypeVar("R", bound=Hashable, default=Request)
    R_contra = DefaultTypeVar("R_contra", bound=Hashable, contravariant=True, default=Request)
else:
    R = TypeVar("R", bound=Hashable)
    R_contra = TypeVar("R_contra", bound=Hashable, contravariant=True)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconcile: when to reconcile the key again.

    `requeue_after` is in seconds and wins over `requeue`, which backs off as failures do. `priority` is the one the key
    comes back with; unless given, the one it had.
    """

    requeue: bool = False
    requeue_after: float = 0.0
    priority: int | None = None


class TerminalError(Exception):
    """A failure that trying again cannot cure: it is logged and counted, and the key waits for the next change.

    Raise it with a message, or `raise TerminalError from error` to keep what happened.
    """


@runtime_checkable
class Reconciler(Protocol[R_contra]):
    """An object with a `reconcile` method."""

    async def reconcile(self, request: R_contra, /) -> Result | None:
        """Make actual state agree with the object that `request` names."""
        ...


T = TypeVar("T")
ReconcileFunction: TypeAlias = Callable[[R], Awaitable[Result | None]]
ObjectReconcileFunction: TypeAlias = Callable[[T], Awaitable[Result | None]]


def as_function(reconciler: Reconciler[R] | ReconcileFunction[R]) -> ReconcileFunction[R]:
    """A reconciler as a plain function, whichever way it was written; TypeError for something that is neither."""
    # Not by isinstance, which takes 0.1 ms for a protocol: a control plane in a test has dozens of controllers.
    method: ReconcileFunction[R] | None = getattr(reconciler, "reconcile", None)
    if method is not None:
        return method
    if callable(reconciler):
        return reconciler
    raise TypeError(f"{reconciler!r} is not a reconciler: expected a method `reconcile` or an async function")


def takes_object(reconciler: Callable[..., Any], kind: type[Any] | GroupVersionKind) -> bool:
    """Return True for a reconciler that wants the object of a kind, False for one that wants its key.

    Raises:
        TypeError: the annotation of its parameter is a class of another kind.
    """
    wanted = _annotation(reconciler)
    if isinstance(wanted, str):
        # A name that is imported for type checkers only cannot be resolved, and says enough.
        return isinstance(kind, type) and wanted.rpartition(".")[2] == kind.__name__
    if typing.get_origin(wanted) is dict or wanted is dict:
        if isinstance(kind, type):
            raise TypeError(f"the reconciler takes a dictionary, and for_ names the class {kind.__name__}")
        return True
    if not isinstance(wanted, type) or not hasattr(wanted, "gvk"):
        return False
    if wanted is not kind:
        named = kind.__name__ if isinstance(kind, type) else kind.kind
        raise TypeError(f"the reconciler takes a {wanted.__name__}, and for_ names {named}")
    return True


def _annotation(function: Callable[..., Any]) -> Any:
    """The annotation of the first parameter; its text if it cannot be resolved."""
    try:
        parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError):
        return None
    if not parameters:
        return None
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target).get(parameters[0])
    except (NameError, TypeError, AttributeError):
        return getattr(target, "__annotations__", {}).get(parameters[0])


def with_object(
    reconcile: ObjectReconcileFunction[Any], kind: type[Any] | GroupVersionKind, client: Client
) -> ReconcileFunction:
    """A reconciler of keys that reads the object and gives it to a reconciler of objects, if it is there."""

    async def read_and_reconcile(request: Request) -> Result | None:
        obj: Any = await client.find(kind, request)
        return None if obj is None else await reconcile(obj)

    return read_and_reconcile


def is_terminal(error: BaseException) -> bool:
    """Return True if trying again cannot help. A group of errors is terminal only when each of them is."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_terminal(part) for part in error.exceptions)
    return isinstance(error, TerminalError)
