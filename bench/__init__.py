"""Measures Kapi, side by side with something to compare it with, and prints a table of ratios.

Run it with `make bench` or `python -m bench`; docs/benchmarks.md explains the rows. Reading order: `table` (what
a row is), `rows` and `custom` (what is measured), `runner` (alternating rounds), `load` (the load generator, a process
of its own), `target` (starting and watching a server), `kube_apiserver` and `baselines` (what Kapi is compared with),
`report` (medians, ratios, tables). `compare` and `pairs` measure two versions of Kapi against each other, `scale` and
`growth` how costs grow.
"""
