"""The methods that clients of one kind have in a generated package, each for a method of `kapi.client.Client`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A method of a client: the method of `Client` with the same name, or `method`, for one class and namespace.

    `{cls}` stands for the class. `part` is the sub-resource a kind must have for it.
    """

    name: str
    doc: str
    parameters: tuple[str, ...]
    options: str
    returns: str
    arguments: tuple[str, ...]
    more: tuple[str, ...] = ()
    method: str = ""
    part: str = ""
    is_async: bool = True


_PATCH: Final = ("name: str", "patch: Object | Sequence[Object]", "*", 'kind: PatchKind = "merge"')
_PATCHED: Final = ("{cls}", "patch", "name=name")

VERBS: Final = (
    Verb("create", "Store a new object.", ("obj: {cls}",), "WriteOptions", "{cls}", ("obj",)),
    Verb(
        "update",
        "Put an object in the place of the one of its name; `Conflict` when it was changed since it was read.",
        ("obj: {cls}",),
        "WriteOptions",
        "{cls}",
        ("obj",),
    ),
    Verb(
        "update_status",
        "Put the object's status, and nothing else of it, in the place of the stored one.",
        ("obj: {cls}",),
        "WriteOptions",
        "{cls}",
        ("obj",),
        part="status",
    ),
    Verb(
        "patch",
        "Change an object; what the patch does not mention stays.",
        _PATCH,
        "PatchOptions",
        "{cls}",
        _PATCHED,
        ("kind=kind",),
    ),
    Verb(
        "patch_status",
        "Change an object's status; the patch is one of the whole object.",
        _PATCH,
        "PatchOptions",
        "{cls}",
        _PATCHED,
        ("kind=kind",),
        part="status",
    ),
    Verb(
        "apply",
        "Create the object, or have exactly these fields of it be as they are here; needs a field manager.",
        ("obj: {cls}",),
        "PatchOptions",
        "{cls}",
        ("obj",),
    ),
    Verb(
        "apply_status",
        "The same for the fields of its status.",
        ("obj: {cls}",),
        "PatchOptions",
        "{cls}",
        ("obj",),
        ('subresource="status"',),
        method="apply",
        part="status",
    ),
    Verb(
        "get",
        "One object; `NotFound` when there is none.",
        ("name: str",),
        "ReadOptions",
        "{cls}",
        ("{cls}", "name"),
    ),
    Verb(
        "list",
        "All objects, or those that selectors select, fetched in pages.",
        (),
        "ListOptions",
        "ObjectList[{cls}]",
        ("{cls}",),
    ),
    Verb(
        "pages",
        "The same page by page.",
        (),
        "ListOptions",
        "AsyncIterator[ObjectList[{cls}]]",
        ("{cls}",),
        is_async=False,
    ),
    Verb(
        "watch",
        "Changes as they happen, until the server ends it.",
        (),
        "WatchOptions",
        "AbstractAsyncContextManager[Watch[{cls}]]",
        ("{cls}",),
        is_async=False,
    ),
    Verb(
        "delete",
        "Delete an object; what the server shows of it, or None when it only says that it is done.",
        ("name: str",),
        "DeleteOptions",
        "{cls} | None",
        ("{cls}", "name"),
    ),
    Verb(
        "delete_all",
        "Delete all objects, or those that selectors select.",
        (),
        "DeleteAllOptions",
        "None",
        ("{cls}",),
    ),
    Verb(
        "get_scale",
        "How many replicas an object wants and has.",
        ("name: str",),
        "ReadOptions",
        "Scale",
        ("{cls}", "name"),
        part="scale",
    ),
    Verb(
        "scale",
        "Have an object want so many replicas.",
        ("name: str", "replicas: int"),
        "PatchOptions",
        "Scale",
        ("{cls}", "name", "replicas"),
        part="scale",
    ),
)
"""In the order they are written. `patch` comes before `list`, which hides the built-in class from what follows it."""
