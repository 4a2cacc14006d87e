"""Indexes: optional structures that speed up or extend searches, and their records in the store."""
