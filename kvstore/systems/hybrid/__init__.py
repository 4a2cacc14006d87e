"""Hybrid search: dense and lexical search combined."""
