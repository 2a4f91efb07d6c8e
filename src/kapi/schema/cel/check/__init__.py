"""Type checking: the types of an expression, and the declarations that its names and calls refer to."""
