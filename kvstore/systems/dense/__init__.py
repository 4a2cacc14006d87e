"""Dense retrieval by the vectors of chunks."""
