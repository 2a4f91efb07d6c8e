"""Webhooks: how one is addressed, called and understood."""
