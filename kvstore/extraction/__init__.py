"""Extraction: pure functions that derive everything stored about one document, and can run in other processes."""
