"""A walk from names and chunks after HippoRAG 2, combined with relevance and with paths of units."""
