"""What writes files for people who write operators: definitions from their classes, classes from their definitions.

Rooms below know objects; this one knows source text. `definitions` and `loading` go from classes to definitions,
`types` goes the other way, `clientset` writes typed clients of either. Nothing here talks to a server.
"""
