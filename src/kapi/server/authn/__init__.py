"""Authentication: client certificates, bearer tokens, anonymous requests."""
