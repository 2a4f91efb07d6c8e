"""Field ownership: sets of fields, schema shapes, merging, server-side apply and managedFields."""
