"""Indexes: files beside the store that searches may use, and what the store knows of them."""
