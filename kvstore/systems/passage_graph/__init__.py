"""Passages and the names in them as a graph, and the strategies that walk over it."""
