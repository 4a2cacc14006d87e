"""Synonyms: names with nearly the same meaning."""
