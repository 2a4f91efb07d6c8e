"""Costs: estimates for expressions before they run, and prices of calls at run time."""
