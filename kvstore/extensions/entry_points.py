"""Plugins: extensions that installed packages add to kvstore by entry points, and the problems with them.

In: the groups ``kvstore.embedders``, ``kvstore.readers``, ``kvstore.strategies`` and ``kvstore.commands`` in the
metadata of installed packages (PyPA specification "Entry points"). Out: objects by name, checked by the package of
kvstore that uses them. Metadata is read only to resolve a name that is not built in or to list all plugins, and once
per process. A package is imported when one of its plugins is used. A broken plugin is a :class:`Plugin` with a
``problem``; it does not affect others, and a request for it by name raises a PluginError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import PluginError
from ..process.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

Converted = TypeVar("Converted")

#: The kinds of plugins, and the entry point groups in which packages declare them.
GROUPS = {
    "embedder": "kvstore.embedders",
    "reader": "kvstore.readers",
    "strategy": "kvstore.strategies",
    "command": "kvstore.commands",
}
_GROUP_PREFIX = "kvstore."


@frozen_dataclass
class Plugin:
    """A plugin of an installed package. Its ``kind`` is embedder, reader, strategy or command.

    ``problem`` is the reason why it is not used, else None. If the kind is unknown, ``kind`` is ``package``, and
    ``name`` is the entry point group, or empty.
    """

    kind: str
    name: str
    package: str
    version: str
    problem: str | None = None

    def __str__(self) -> str:
        """Return the plugin as part of a message, such as ``the reader 'adoc' of the package docs 1.0``."""
        return f"the {self.kind} {self.name!r} of the package {self.package} {self.version}"


class PluginGroup(Generic[Converted]):
    """The plugins of one kind."""

    def __init__(
        self,
        kind: str,
        *,
        get_reserved_names: Callable[[], Collection[str]],
        convert: Callable[[Plugin, Any], Converted],
    ) -> None:
        """Create the group of all plugins of a kind, a key of :data:`GROUPS` such as ``embedder``.

        ``get_reserved_names`` returns kvstore's own names, which no package can replace. ``convert`` converts the
        object of a package's entry point to the object that kvstore uses. For an invalid object it raises a PluginError
        that says what is wrong with it; the message becomes the ``problem`` of the plugin.
        """
        self._kind = kind
        self._get_reserved_names = get_reserved_names
        self._convert = convert
        self._loaded_plugins: dict[str, tuple[Plugin, Converted | None]] = {}  # by name; None: the plugin has a problem

    def get(self, name: str) -> Converted | None:
        """Return the object of the plugin with this name; None if no package has one, or if the name is kvstore's own.

        Raises PluginError if the plugin is broken.
        """
        if name in self._get_reserved_names() or name not in _get_entry_points()[self._kind]:
            return None
        plugin, value = self._load_plugin(name)
        if value is None:
            raise PluginError(f"{plugin} cannot be used: {plugin.problem}; fix the package, or uninstall it")
        return value

    def load_usable(self) -> dict[str, Converted]:
        """Return the converted objects of all working plugins, by name."""
        loaded = ((name, self._load_plugin(name)) for name in _get_entry_points()[self._kind])
        return {name: value for name, (_, value) in loaded if value is not None}

    def list_plugins(self) -> list[Plugin]:
        """Return all plugins, sorted by name.

        A plugin that is broken, or whose name several packages provide, has a ``problem``.
        """
        plugins = []
        for name, entry_points in _get_entry_points()[self._kind].items():
            loaded_plugin, _ = self._load_plugin(name)
            plugins += [
                Plugin(self._kind, name, *_get_package(entry_point), loaded_plugin.problem)
                for entry_point in entry_points
            ]
        return plugins

    def _load_plugin(self, name: str) -> tuple[Plugin, Converted | None]:
        """Return the plugin of the entry point ``name``, and its object as kvstore uses it.

        A plugin with a problem has no object (None). Each plugin is loaded only once.
        """
        if name not in self._loaded_plugins:
            entry_points = _get_entry_points()[self._kind][name]
            plugin, value = Plugin(self._kind, name, *_get_package(entry_points[0])), None
            try:
                value = self._convert_entry_point(plugin, entry_points)
            except PluginError as error:
                plugin = replace(plugin, problem=str(error))
            except (Exception, SystemExit) as error:  # importing another package's module can raise anything
                plugin = replace(plugin, problem=format_error(error))
            self._loaded_plugins[name] = plugin, value
        return self._loaded_plugins[name]

    def _convert_entry_point(self, plugin: Plugin, entry_points: Collection[EntryPoint]) -> Converted:
        """Import and convert the object of a plugin; ``entry_points`` are all entry points of its name.

        Raises PluginError for a name that is reserved or ambiguous, and any exception of the package.
        """
        if plugin.name in self._get_reserved_names():
            raise PluginError("kvstore itself already uses this name")
        if len(entry_points) > 1:
            packages = " and ".join(package for package, _ in map(_get_package, entry_points))
            raise PluginError(f"{packages} all add this name")
        (entry_point,) = entry_points
        return self._convert(plugin, entry_point.load())


def format_error(error: BaseException) -> str:
    """Format an exception of a plugin in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def list_unusable_entry_points() -> list[Plugin]:
    """Return a Plugin with its problem for each package or entry point of kvstore's groups that cannot be used.

    Either the package's entry points are unreadable, or the group is not in :data:`GROUPS`.
    """
    _, problem_plugins = _scan_packages()
    return list(problem_plugins)


def _get_entry_points() -> dict[str, dict[str, list[EntryPoint]]]:
    """Return the entry points of installed packages by kind of plugin (such as ``embedder``), then by name.

    A name has several entry points if several packages declare it.
    """
    entry_points_by_kind, _ = _scan_packages()
    return entry_points_by_kind


@cache
def _scan_packages() -> tuple[dict[str, dict[str, list[EntryPoint]]], list[Plugin]]:
    """Return the entry points of all packages by kind of plugin (such as ``embedder``) and name.

    Also return a Plugin with its problem for each package or entry point that cannot be used. Each list of entry points
    is in the order of package names, so that the order of installed packages decides nothing.
    """
    from importlib.metadata import distributions

    kind_by_group = {group: kind for kind, group in GROUPS.items()}
    entry_points_by_kind: dict[str, dict[str, list[EntryPoint]]] = {kind: {} for kind in GROUPS}
    problem_plugins: list[Plugin] = []
    seen_packages: set[str] = set()
    for distribution in distributions():
        # Reading a name and a version is slow, so packages that do not mention kvstore are skipped first.
        if not _declares_plugins(distribution):
            continue
        package, version = _read_package(distribution)
        if package in seen_packages:  # a second copy further down the path is never imported
            continue
        seen_packages.add(package)
        try:
            entry_points = list(distribution.entry_points)
        except Exception as error:
            problem = f"its entry points cannot be read: {format_error(error)}"
            problem_plugins.append(Plugin("package", "", package, version, problem))
            continue
        for entry_point in entry_points:
            kind = kind_by_group.get(entry_point.group)
            if kind is not None:
                entry_points_by_kind[kind].setdefault(entry_point.name, []).append(entry_point)
            elif entry_point.group.startswith(_GROUP_PREFIX):
                problem = f"kvstore has no such entry points; there are {', '.join(kind_by_group)}"
                problem_plugins.append(Plugin("package", entry_point.group, package, version, problem))
    sorted_by_name = {kind: dict(sorted(by_name.items())) for kind, by_name in entry_points_by_kind.items()}
    for by_name in sorted_by_name.values():
        for entry_points in by_name.values():
            entry_points.sort(key=_get_package)
    return sorted_by_name, problem_plugins


def _declares_plugins(distribution: Distribution) -> bool:
    """True if a package declares an entry point in a group of kvstore."""
    try:
        return f"[{_GROUP_PREFIX}" in (distribution.read_text("entry_points.txt") or "")
    except (OSError, ValueError):  # missing, or not readable as text
        return False


def _get_package(entry_point: EntryPoint) -> tuple[str, str]:
    """Return the name and the version of the package that has an entry point; ("unknown", "") if it has none."""
    return ("unknown", "") if entry_point.dist is None else _read_package(entry_point.dist)


def _read_package(distribution: Distribution) -> tuple[str, str]:
    """Return the name and the version of a package; ("unknown", "") if its metadata is incomplete."""
    try:
        return str(distribution.metadata["Name"]), str(distribution.version)
    except Exception:  # incomplete metadata
        return "unknown", ""
