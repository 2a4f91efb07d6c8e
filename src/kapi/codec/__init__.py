"""Bytes in, plain objects out, and back: JSON, YAML, protobuf request bodies, and which of them to speak.

Read `limits` first: every bound on input is there. Then `json` (the hot path), `yaml`, `protobuf` and `negotiate`.
Nothing here knows a kind, a schema or a store.
"""
