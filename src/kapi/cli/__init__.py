"""The `kapi` command."""
