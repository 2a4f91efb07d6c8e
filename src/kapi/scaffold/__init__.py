"""Code generation for operators: definitions from classes, classes from definitions, clients from either.

In reading order: `loader` imports classes, `definitions` makes and reads CustomResourceDefinitions, `types` writes
classes of a definition (`annotations` their types, `models` and `names` their parts, `source` the text), and
`clientset` writes typed clients. Nothing here talks to a server.
"""
