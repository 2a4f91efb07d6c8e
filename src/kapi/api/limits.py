"""The one table of limits on what a client may send, checked before or while parsing and never after.

It is in this package because patches, the lowest layer that checks a limit, are. What a connection may cost (headers,
time-outs, their number) is in `server/transport/limits.py`. Each number says what it protects. Sizes are bytes. Where
kube-apiserver has the same limit the value is the same, because clients have learnt it; the others exist because this
server is written in Python.
"""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024

BODY_BYTES: Final = 3 * MIB
"""A request body, after decompression. kube-apiserver answers 413 `limit is 3145728`."""

OBJECT_BYTES: Final = 3 * MIB // 2
"""One stored object, encoded. etcd refuses requests over 1.5 MiB, so nothing larger can exist on a real cluster."""

JSON_DEPTH: Final = 256
"""Nested arrays and objects. kube-apiserver allows 10,000; we stop where a walker that spends three Python frames a
level still fits under the interpreter's limit of 1,000. Real objects stay far below: deep CRD schemas reach 60."""

OBJECT_DEPTH: Final = JSON_DEPTH - 8
"""Nested arrays and objects of one stored object, its managedFields included. What surrounds an object in a list, a
watch event, a Table or a review takes up to 8 more, so that no client is sent what it could not send back."""

OFF_LOOP_BYTES: Final = 16 * 1024
"""From this size on a body is decoded, and an object patched, merged and validated, in a thread: it may take 10 ms."""

OFF_LOOP_EXPRESSIONS: Final = 2 * 1024
"""From this size on the expressions of a webhook are compiled in a thread: a kilobyte may take some milliseconds."""

ERROR_BYTES: Final = 2 * MIB
"""The errors of one object that are described, with 200 bytes for each besides its text; the others are counted."""

REPORTED_ERRORS: Final = 250
"""Field errors in one answer. kube-apiserver reports all of them, which can be hundreds of megabytes."""

REPORTED_ERROR_BYTES: Final = 256 * 1024
"""The texts of the field errors in one answer; the first is reported in any case."""

MESSAGE_CHARACTERS: Final = 320 * 1024
"""The message of an error. It may repeat a name or a value that a client has sent; what is longer is cut."""

ECHOED_BODY_BYTES: Final = 10 * 1024
"""How much of a body is repeated in the message that refuses it; kube-apiserver repeats all of it."""

LARGE_BODY_BYTES: Final = 64 * 1024
"""From this size on, a body counts as large: `LARGE_REQUESTS` with such bodies are handled at a time, others wait."""

LARGE_REQUESTS: Final = 2
"""Decoded, 3 MiB of JSON take up to 100 MiB, and each is a thread that competes with the event loop. A large request is
nearly all CPU, so more at a time would not be faster."""

JSON_EXPLAINED_BYTES: Final = 64 * 1024
"""Bodies up to this size get the exact wording of a syntax error; the scanner that finds it is not fast."""

NUMBER_CHARACTERS: Final = 64
"""How much of an absurd number is repeated in the message that refuses it."""

STRICT_PROBLEMS: Final = 100
"""How many duplicate fields are reported; kube-apiserver stops at 100 too."""

YAML_BYTES: Final = MIB
"""A body that really is YAML. A MiB takes a third of a second to read; JSON sent as YAML only has `BODY_BYTES`."""

YAML_DEPTH: Final = 100
"""Nested collections in YAML, aliases expanded. PyYAML's C loader crashes the process at some ten thousand."""

YAML_NODES: Final = 100_000
"""Scalars and collections in one YAML document; each costs 2 to 3 µs."""

YAML_ALIASED_NODES: Final = 10_000
"""Nodes that come from `*anchor` in one YAML document, each alias counted as all that it stands for.
Their texts together have at most `YAML_BYTES`."""

YAML_OFF_LOOP_BYTES: Final = 16 * 1024
"""From this size on, callers on an event loop should parse YAML in a thread: it is 5 to 20 ms of work."""

PROTOBUF_DEPTH: Final = 100
"""Nested messages. Built-in kinds other than CRD schemas stay below 20."""

PROTOBUF_FIELDS: Final = 200_000
"""Fields in one protobuf body; an empty field is two bytes on the wire and a dictionary entry here."""

PATCH_OPERATIONS: Final = 10_000
"""Operations in a JSON patch; kube-apiserver answers 413 beyond."""

PATCH_COPY_BYTES: Final = BODY_BYTES
"""What the `copy` operations of one JSON patch may add up to."""

PATCH_MOVED_ITEMS: Final = 100_000_000
"""Items of lists that the operations of one JSON patch may move, by inserting and removing before them: 100 ms."""

SELECTOR_TERMS: Final = 1000
"""Terms of a label or field selector in a URL, and values of its `in` and `notin`. kube-apiserver has no limit; URLs
are too short for 1,000 names of ordinary length."""

AUDIT_ID_LENGTH: Final = 256
"""Characters kept of an `Audit-Id` header, which is copied into the response, the audit log and other logs. An id is a
UUID of 36; kube-apiserver keeps all of it and logs 64."""

TABLE_ROW_CHARACTERS: Final = 256 * 1024
"""The texts in one row of the Table of a custom kind; what is longer is cut. kube-apiserver shows all of it."""

ACCEPT_CLAUSES: Final = 32
"""Media ranges looked at in an `Accept` header; the rest is ignored."""

NEGOTIATION_LENGTH: Final = 1024
"""Longer headers are read each time and not remembered."""

NEGOTIATION_CACHE: Final = 512
"""Distinct header values remembered. Clients send a handful; the bound is for those who send random ones."""
