"""Encryption at rest: values of chosen resources are encrypted before they reach a store, and decrypted behind it."""
