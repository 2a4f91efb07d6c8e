"""Schemas: what an object of a kind may look like, compiled into functions when the kind is first used.

Reading order: `builtin` (schemas of the built-in kinds; start at `typed`), `structural` (those of custom kinds), `cel`
(the expression language), `rules` (validation rules written in it), `admission` (expressions of policies and webhooks),
`customschema` (all of it for one custom kind), and `openapi` (how schemas are published). Nothing here knows about
requests or storage.
"""
