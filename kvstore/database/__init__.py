"""An open store without its language: reads, transactions, ingest, export, indexes and settings."""
