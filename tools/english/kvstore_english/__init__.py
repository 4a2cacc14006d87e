"""Data of kvstore-db-english: the folders ``pipeline``, which kvstore loads with spaCy, and ``answer_reader``."""
