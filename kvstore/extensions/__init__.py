"""Installed packages that extend kvstore: optional dependencies and plug-ins found by entry points."""
