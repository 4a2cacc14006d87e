"""BM25 over the words of chunks."""
