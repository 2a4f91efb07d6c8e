"""The namespace controller: deletes the content of terminating namespaces, reports what remains, finalizes them."""
