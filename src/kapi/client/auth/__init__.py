"""Credentials of a client: tokens, token files, client certificates, and exec plugins."""
