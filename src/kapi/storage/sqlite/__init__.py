"""The SQLite backend: the embedded, durable store.

Read `storage` (the loop's side) and `writer` (the thread that owns the revision) first, then `reader` and
`maintenance`. `schema` has the tables, `file` the directory. Integrity: `mark`, `wal`, `opening`, `verification`,
`openfiles`, `scrub`; and for stores that are damaged `pages`, `salvage`, `logcorrection`, `repair`.
"""
