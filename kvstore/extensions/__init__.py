"""Installed packages that extend kvstore: optional dependencies and plugins found by entry points."""
