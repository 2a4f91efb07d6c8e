"""The types of an expression: what its names and calls refer to, and what is wrong with it."""
