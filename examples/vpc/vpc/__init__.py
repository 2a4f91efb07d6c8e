"""The operator vpc."""
