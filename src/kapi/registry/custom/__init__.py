"""Custom resources: kinds that users define at run time.

A definition (a stored CustomResourceDefinition) becomes served versions here, each with its own rules and its own store
over the same objects. `definitions` follows the stored definitions and keeps the catalog up to date;
`definitioncontroller` does what takes several steps, such as deleting the instances of a definition before it.
"""
