"""Structures derived from the documents and maintained in their commit: the metadata index, the passage graph,
synonyms.

Each is registered in :mod:`kvstore.registry`, as the published systems are, and several systems read it.
"""
