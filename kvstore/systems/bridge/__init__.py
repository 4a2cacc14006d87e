"""Bridge-RAG: from entities over abstracts to chunks."""
