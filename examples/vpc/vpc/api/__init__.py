"""The kinds of the operator, one module for each version."""
