"""The generators that run when the package is built: schemas and typed classes of the built-in kinds.

Not part of the installed package. `hatch_build.py` calls it for wheels and editable installs; developers call
`python -m generate`. It reads the definitions that the PyPI package `kubernetes-validate` carries and writes two
git-ignored outputs below `src/kapi`. It may touch nothing else, and imports nothing of Kapi.
"""
