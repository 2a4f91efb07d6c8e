"""Schemas: what an object of a kind may look like, compiled into functions when the kind is first used.

Reading order: `builtin` (where the schemas of the built-in kinds come from), `typed` (what can be done with one:
`coerce`, `validate`, `merge`), its parts `decoding`, `scalars`, `times`, `requirements` and `merging`, and `openapi`
(how schemas are published). Nothing here knows about requests or storage.
"""
