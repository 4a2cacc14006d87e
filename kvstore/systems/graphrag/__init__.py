"""Communities of entities that belong together, at several levels, and what they are about."""
