"""The SQLite backend: the embedded, durable store."""
