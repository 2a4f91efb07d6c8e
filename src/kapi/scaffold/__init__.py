"""Code generation for operators: projects, definitions from classes, classes from definitions, clients from either.

`changes` are the commands on a project; `project` is its PROJECT file, `layout` its files, `template` their texts,
`writer` writes them; `manifests` and `rbac` make definitions and roles of its code.

In reading order: `loader` imports classes, `definitions` makes and reads CustomResourceDefinitions, `types` writes
classes of a definition (`annotations` their types, `models` and `names` their parts, `source` the text), and
`clientset` writes typed clients. Nothing here talks to a server.
"""
