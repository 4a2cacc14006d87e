"""Adapters of stores to other frameworks, one module each, imported on use.

An adapter uses only the public API of kvstore, as an application does, and needs the extra that it names.
"""
