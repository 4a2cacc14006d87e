"""Plugins: what installed packages add to kvstore by entry points, and what is wrong with it.

In: the groups ``kvstore.embedders``, ``kvstore.readers``, ``kvstore.strategies`` and ``kvstore.commands`` in the
metadata of the packages that Python finds (PyPA specification "Entry points"). Out: objects by name, checked by the
room that uses them. Nothing is looked for before something is asked for that kvstore itself has not, or all that there
is; the metadata are read once a process, and a package is imported when something of it is used. What is broken is a
:class:`Plugin` with a ``problem``, and stops nothing else; whoever asks for it by name gets a PluginError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

Made = TypeVar("Made")

#: The kinds of plugins, and the groups in which packages name them.
GROUPS = {
    "embedder": "kvstore.embedders",
    "reader": "kvstore.readers",
    "strategy": "kvstore.strategies",
    "command": "kvstore.commands",
}
_OURS = "kvstore."


@dataclass(frozen=True, slots=True)
class Plugin:
    """What an installed package adds: its ``kind`` is embedder, reader, strategy or command.

    ``problem`` says why it is not used, None where it is. Where no kind can be told, it is ``package``, and the name
    that of the group, if any.
    """

    kind: str
    name: str
    package: str
    version: str
    problem: str | None = None

    def __str__(self) -> str:
        return f"the {self.kind} {self.name!r} of the package {self.package} {self.version}"


class PluginGroup(Generic[Made]):
    """The plugins of one kind.

    ``taken`` gives the names that are kvstore's own, which no package replaces. ``made`` turns what a package's entry
    point names into what is used; it raises a PluginError, a sentence without a subject, for what is none.
    """

    def __init__(self, kind: str, *, taken: Callable[[], Collection[str]], made: Callable[[Plugin, Any], Made]) -> None:
        self._kind = kind
        self._taken = taken
        self._made = made
        self._loaded: dict[str, tuple[Plugin, Made | None]] = {}

    def get(self, name: str) -> Made | None:
        """What a package adds under this name, None where none does; raises PluginError where it is broken."""
        if name in self._taken() or name not in _found()[self._kind]:
            return None
        plugin, made = self._load(name)
        if made is None:
            raise PluginError(f"{plugin} cannot be used: {plugin.problem}; mend the package, or uninstall it")
        return made

    def usable(self) -> dict[str, Made]:
        """All that can be used, by name."""
        loaded = ((name, self._load(name)) for name in _found()[self._kind])
        return {name: made for name, (_, made) in loaded if made is not None}

    def plugins(self) -> list[Plugin]:
        """All that there are, those that cannot be used with what is wrong."""
        return [
            Plugin(self._kind, name, *_package(point), self._load(name)[0].problem)
            for name, points in _found()[self._kind].items()
            for point in points
        ]

    def _load(self, name: str) -> tuple[Plugin, Made | None]:
        if name not in self._loaded:
            points = _found()[self._kind][name]
            plugin, made = Plugin(self._kind, name, *_package(points[0])), None
            try:
                made = self._checked(plugin, points)
            except PluginError as error:
                plugin = replace(plugin, problem=str(error))
            except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
                plugin = replace(plugin, problem=told(error))
            self._loaded[name] = plugin, made
        return self._loaded[name]

    def _checked(self, plugin: Plugin, points: Collection[EntryPoint]) -> Made:
        if plugin.name in self._taken():
            raise PluginError("kvstore itself has one of this name")
        if len(points) > 1:
            packages = " and ".join(_package(one)[0] for one in points)
            raise PluginError(f"{packages} each have one of this name, and nothing says which is meant")
        (point,) = points
        return self._made(plugin, point.load())


def told(error: BaseException) -> str:
    """What a stranger's code raised, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


def misplaced() -> list[Plugin]:
    """The packages whose entry points cannot be read, and groups of names that are none of :data:`GROUPS`."""
    return list(_scan()[1])


def _found() -> dict[str, dict[str, list[EntryPoint]]]:
    """The entry points of each kind, by name."""
    return _scan()[0]


@cache
def _scan() -> tuple[dict[str, dict[str, list[EntryPoint]]], list[Plugin]]:
    from importlib.metadata import distributions

    kinds = {group: kind for kind, group in GROUPS.items()}
    found: dict[str, dict[str, list[EntryPoint]]] = {kind: {} for kind in GROUPS}
    wrong: list[Plugin] = []
    seen: set[str] = set()
    for distribution in distributions():
        # Names and versions are slow to read: only of those that mention kvstore.
        if not _mentions_kvstore(distribution):
            continue
        package, version = _named(distribution)
        if package in seen:  # the same package further behind on the path is not what is imported
            continue
        seen.add(package)
        try:
            points = list(distribution.entry_points)
        except Exception as error:
            wrong.append(Plugin("package", "", package, version, f"its entry points cannot be read: {told(error)}"))
            continue
        for point in points:
            if point.group in kinds:
                found[kinds[point.group]].setdefault(point.name, []).append(point)
            elif point.group.startswith(_OURS):
                there_are = f"kvstore has no such entry points; there are {', '.join(kinds)}"
                wrong.append(Plugin("package", point.group, package, version, there_are))
    ordered = {kind: dict(sorted(points.items())) for kind, points in found.items()}
    for kind in ordered.values():
        for points in kind.values():
            points.sort(key=_package)
    return ordered, wrong


def _mentions_kvstore(distribution: Distribution) -> bool:
    try:
        return f"[{_OURS}" in (distribution.read_text("entry_points.txt") or "")
    except (OSError, ValueError):  # no text, or none that may be read
        return False


def _package(point: EntryPoint) -> tuple[str, str]:
    """The name and the version of the package that has an entry point."""
    return ("unknown", "") if point.dist is None else _named(point.dist)


def _named(distribution: Distribution) -> tuple[str, str]:
    # Metadata that lack them give None, or raise.
    try:
        return str(distribution.metadata["Name"]), str(distribution.version)
    except Exception:
        return "unknown", ""
