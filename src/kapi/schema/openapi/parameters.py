"""The query and path parameters of operations, with their descriptions."""

from __future__ import annotations

from typing import NamedTuple


class Parameter(NamedTuple):
    """A query parameter. People and scripts search descriptions for the names of values and fields in them."""

    type: str
    description: str


PARAMETERS: dict[str, Parameter] = {
    "allowWatchBookmarks": Parameter(
        "boolean",
        'allowWatchBookmarks requests watch events of type "BOOKMARK", which carry a resourceVersion and no object. '
        "Clients must not count on them at any interval. Ignored if this is not a watch.",
    ),
    "command": Parameter("string", "The remote command to execute, one argument each. Not executed within a shell."),
    "container": Parameter("string", "The name of the container. Defaults to the only container of the pod."),
    "continue": Parameter(
        "string",
        "The continue token of the previous page, to read the next page of the same list with otherwise identical "
        "query parameters. A token that is no longer valid is answered with a 410 ResourceExpired error, with a token "
        "to go on from the next key at the latest resourceVersion. Not supported when watch is true.",
    ),
    "dryRun": Parameter(
        "string",
        "When present, modifications are not persisted. Valid values are: All, which runs all dry run stages.",
    ),
    "fieldManager": Parameter(
        "string",
        "fieldManager is the name of the actor or entity that makes these changes and owns the changed fields. At most "
        "128 printable characters. Required for apply requests (application/apply-patch), optional for others.",
    ),
    "fieldSelector": Parameter(
        "string",
        "A selector to restrict the returned objects by their fields. Defaults to everything.",
    ),
    "fieldValidation": Parameter(
        "string",
        "fieldValidation instructs the server how to handle unknown or duplicate fields in the objects of a request. "
        "Valid values are: Ignore, which drops unknown fields and all but the last duplicate; Warn, the default, which "
        "also sends a warning for each; Strict, which fails the request with a BadRequest error that names them.",
    ),
    "follow": Parameter("boolean", "Follow the log stream of the pod. Defaults to false."),
    "force": Parameter(
        "boolean",
        "Force an apply request: take over conflicting fields that other field managers own. Must be unset for other "
        "patch requests.",
    ),
    "gracePeriodSeconds": Parameter(
        "integer",
        "The duration in seconds before the object is deleted, a non-negative integer. Zero means delete immediately. "
        "Defaults to a value per object, or per kind.",
    ),
    "insecureSkipTLSVerifyBackend": Parameter(
        "boolean",
        "Do not verify the serving certificate of the kubelet that the log is read from. Defaults to false.",
    ),
    "labelSelector": Parameter(
        "string",
        "A selector to restrict the returned objects by their labels. Defaults to everything.",
    ),
    "limit": Parameter(
        "integer",
        "limit is the maximum number of objects to return for a list call. If more exist, the list metadata has a "
        "continue token for the next page; all pages show one consistent snapshot. Not supported if watch is true.",
    ),
    "limitBytes": Parameter(
        "integer", "The number of bytes of the log to return before it is terminated. Defaults to all."
    ),
    "orphanDependents": Parameter(
        "boolean",
        "Deprecated: use propagationPolicy, which may not be set too. Should the dependent objects be orphaned.",
    ),
    "path": Parameter(
        "string", "The part of the URL to use for the proxied request, with its suffixes and parameters."
    ),
    "ports": Parameter("integer", "The ports to forward. Required when using WebSockets."),
    "pretty": Parameter(
        "string",
        "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent is a browser or a "
        "command-line HTTP tool (curl and wget).",
    ),
    "previous": Parameter("boolean", "Return the logs of the previous, terminated container. Defaults to false."),
    "propagationPolicy": Parameter(
        "string",
        "Whether and how garbage collection is performed; may not be set together with orphanDependents. Acceptable "
        "values are: 'Orphan', which orphans the dependents; 'Background', which lets the garbage collector delete "
        "them in the background; 'Foreground', which deletes all of them first.",
    ),
    "resourceVersion": Parameter(
        "string",
        "resourceVersion sets a constraint on the resource versions that a request may be served from. Defaults to "
        "unset, the most recent data.",
    ),
    "resourceVersionMatch": Parameter(
        "string",
        "resourceVersionMatch determines how resourceVersion is applied to list calls: Exact or NotOlderThan. Defaults "
        "to unset.",
    ),
    "sendInitialEvents": Parameter(
        "boolean",
        "With watch=true and resourceVersionMatch=NotOlderThan, the watch begins with synthetic events for the current "
        'objects, then a bookmark with the annotation "k8s.io/initial-events-end": "true".',
    ),
    "sinceSeconds": Parameter("integer", "Show logs since this many seconds before the current time."),
    "stderr": Parameter("boolean", "Redirect the standard error stream of the container for this call."),
    "stdin": Parameter(
        "boolean", "Redirect the standard input stream of the container for this call. Defaults to false."
    ),
    "stdout": Parameter("boolean", "Redirect the standard output stream of the container for this call."),
    "stream": Parameter(
        "string",
        'The log stream to return. Acceptable values are "All", the default, "Stdout" and "Stderr".',
    ),
    "tailLines": Parameter("integer", "The number of lines from the end of the logs to show. Defaults to all lines."),
    "timeoutSeconds": Parameter(
        "integer",
        "Timeout for the list/watch call. This limits the duration of the call, regardless of any activity.",
    ),
    "timestamps": Parameter("boolean", "Add an RFC3339 timestamp at the beginning of every line of log output."),
    "tty": Parameter("boolean", "Allocate a TTY for this call. Defaults to false."),
    "watch": Parameter(
        "boolean",
        "Watch for changes to the described resources and return them as a stream of add, update, and remove "
        "notifications. Specify resourceVersion.",
    ),
}
"""Query parameters by name."""

PATH_PARAMETERS = {
    "namespace": "object name and auth scope, such as for teams and projects",
    "name": "name of the object",
}

_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_SELECT = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
)
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
QUERIES: dict[str, tuple[str, ...]] = {
    "get": (),
    "list": tuple(sorted(("allowWatchBookmarks", "watch", *_SELECT))),
    "post": _WRITE,
    "put": _WRITE,
    "patch": tuple(sorted((*_WRITE, "force"))),
    "delete": _DELETE,
    "deletecollection": tuple(sorted((*_DELETE, *_SELECT))),
    "connect": (),
}

_STREAM_QUERIES = ("container", "stderr", "stdin", "stdout", "tty")
SUBRESOURCE_QUERIES: dict[str, tuple[str, ...]] = {
    "attach": _STREAM_QUERIES,
    "exec": ("command", *_STREAM_QUERIES),
    "log": (
        "container",
        "follow",
        "insecureSkipTLSVerifyBackend",
        "limitBytes",
        "previous",
        "sinceSeconds",
        "stream",
        "tailLines",
        "timestamps",
    ),
    "portforward": ("ports",),
    "proxy": ("path",),
}
"""The query parameters of sub-resources that are no objects."""
