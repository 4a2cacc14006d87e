"""CUE-RAG: retrieval along paths in a graph of chunks, units (sentences) and entities."""
