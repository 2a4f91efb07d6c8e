"""The resources that are served: the catalog, stores, the write path, the strategies of each kind, tables."""
