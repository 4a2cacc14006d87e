"""Names of entities: their introductions, aliases and mentions."""
