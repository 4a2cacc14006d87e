"""Data of kvstore-db-english: the English pipeline in the folder ``pipeline``, which kvstore loads with spaCy."""
