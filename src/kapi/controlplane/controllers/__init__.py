"""Housekeeping: what a control plane does by itself, as ordinary controllers of our own framework.

In reading order: `house` is what every part is given, `inventory` what it sees, `feed` how it hears of changes,
`selection` which parts run, `keeper` runs them; then a module or a package for each part.
"""
