"""Structures derived from the documents, such as the metadata index, and maintained in their commit.

Each is registered in :mod:`kvstore.registry`, as the published systems are, and several systems read it.
"""
