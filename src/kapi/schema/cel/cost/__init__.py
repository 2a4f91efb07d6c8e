"""Costs: what an expression may cost at most before it runs, and what its calls cost while it runs."""
