"""The list of all plugins of installed packages, which ``kvstore.plugins`` returns.

In: the plugin groups of the kvstore packages that use them. Out: each plugin, broken ones with the reason.
"""

from __future__ import annotations

from ..extensions.entry_points import Plugin, list_unusable_entry_points
from ..ingest import READERS
from ..models.embedder import EMBEDDERS
from ..registry.plugin_strategy import STRATEGY_PLUGINS


def plugins() -> list[Plugin]:
    """Return the embedders, readers and strategies of installed packages, and problems with their entry points.

    The entry points are ``kvstore.embedders``, ``kvstore.readers`` and ``kvstore.strategies``. Each plugin is imported.
    The ``kvstore plugins`` command lists these plugins, and commands (``kvstore.commands``).

    >>> [plugin.name for plugin in kvstore.plugins() if plugin.problem is not None]
    []
    """
    return [
        *EMBEDDERS.list_plugins(),
        *READERS.list_plugins(),
        *STRATEGY_PLUGINS.list_plugins(),
        *list_unusable_entry_points(),
    ]
