"""The graph of chunks and the names in them, and the walks over it."""
