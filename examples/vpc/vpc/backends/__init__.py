"""Where the networks are: `contract` says what a backend does, `simulated` and `linux` do it."""
