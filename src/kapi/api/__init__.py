"""The nouns of the API and the algorithms on them: errors, metadata, names, selectors, values, patches. No I/O."""
