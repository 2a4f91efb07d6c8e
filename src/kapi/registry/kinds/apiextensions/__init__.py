"""The kind of the group apiextensions.k8s.io: CustomResourceDefinition, its validation, status and older version.

`definitions` has the strategy; it calls `validation` (with `schemavalidation`, `schemafields`, `versionfields`,
`conversion`, `approval`, and `options` for what stored definitions may keep) and `conditions` for the status. `v1beta1`
converts the older version. The objects of the kinds that definitions define are served by `kapi.registry.custom`, by
schemas compiled in `kapi.schema.customschema`; `kapi.api.crd` makes definitions from Python classes.
"""
