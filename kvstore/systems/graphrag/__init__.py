"""GraphRAG: communities of related entities at several levels, and reports on them."""
