"""Asking somebody else over HTTPS: where a webhook is, and what it is asked."""
