"""OpenAPI documents of the resources that the server serves.

`served` lists the resources, `operations` turns them into paths and operations with `parameters`, `components` renders
the schemas of built-in kinds and `custom` those of custom ones; `v3` and `v2` put documents together in the two
versions of the format, and `v2_protobuf` packs the older one for old kubectl. Documents are plain JSON values, built
when asked for; the caller keeps the bytes.
"""
