"""Bridge-RAG: retrieval from entities through abstracts to chunks."""
