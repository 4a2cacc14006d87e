"""Names of entities: what introduces them, what stands for them, where they are mentioned."""
