"""The control plane's own controllers: those of kube-controller-manager that need no nodes, and a few of ours.

In reading order: `names` (which controllers there are, and `--controllers`), `context` (what a controller is given),
`view` (what it reads), `source` (how it learns of changes), `writer` (how it writes), `controllerset` (runs them all);
then a module or a package for each controller.
"""
