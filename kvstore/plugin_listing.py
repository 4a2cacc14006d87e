"""What installed packages add to kvstore, all of it: what ``kvstore.plugins`` gives.

In: the groups of plugins of the rooms that use them. Out: each plugin, those that are not used with the reason.
"""

from __future__ import annotations

from .entry_points import Plugin, list_misplaced
from .ingest.readers import READERS
from .models.embedder import EMBEDDERS
from .systems.plugin_strategy import STRATEGY_PLUGINS


def plugins() -> list[Plugin]:
    """The embedders, readers and strategies that installed packages add, by the entry points ``kvstore.embedders``,
    ``kvstore.readers`` and ``kvstore.strategies``, and what is wrong with their entry points.

    Each is imported. The command ``kvstore plugins`` lists these, and commands (``kvstore.commands``).

    >>> [plugin.name for plugin in kvstore.plugins() if plugin.problem is not None]
    []
    """
    return [*EMBEDDERS.list_plugins(), *READERS.list_plugins(), *STRATEGY_PLUGINS.list_plugins(), *list_misplaced()]
