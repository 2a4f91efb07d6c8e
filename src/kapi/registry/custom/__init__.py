"""Custom resources: kinds that users define at run time.

A definition (a stored CustomResourceDefinition) becomes served versions here, each with its own strategy and its own
store over the same objects. The kind CustomResourceDefinition itself is in `kapi.registry.kinds.apiextensions`, the
schemas of custom kinds in `kapi.schema.customschema` and `kapi.schema.structural`, Python classes as custom kinds in
`kapi.api.crd`. `definitions` follows the stored definitions and keeps the catalog up to date;
`definitioncontroller` does what takes several steps, such as deleting the instances of a definition before it.
"""
