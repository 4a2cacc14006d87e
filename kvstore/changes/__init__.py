"""Exact changes, CHECK, the logical dump and repair: the code that upholds the laws of docs/design.md."""
