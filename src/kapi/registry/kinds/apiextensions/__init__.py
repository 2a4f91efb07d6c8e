"""CustomResourceDefinition: the kind that defines kinds. Its rules, its conditions, and its older form."""
