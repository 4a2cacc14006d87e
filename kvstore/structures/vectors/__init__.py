"""Vectors of chunks, and graphs over them."""
