"""RAPTOR: retrieval from trees of summaries."""
