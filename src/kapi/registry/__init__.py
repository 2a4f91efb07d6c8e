"""What is served and how it behaves: the catalog, the generic store, the rules of each kind, tables."""
