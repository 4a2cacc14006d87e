"""The published systems: a package for each paper, found by name through :mod:`kvstore.registry`.

Nothing outside this package imports it. A store works without any of these packages; their strategies are then unknown.
"""

from ..registry import register

__all__ = ["register"]
