"""Encodings: JSON, YAML, protobuf request bodies, and content negotiation.

Read `json` first (the hot path), then `yaml`, `protobuf` and `negotiate`. Every limit on input is in `api/limits.py`.
Nothing here knows a kind, a schema or a store.
"""
