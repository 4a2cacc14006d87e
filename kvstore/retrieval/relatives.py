"""The relatives (ancestors and descendants of an entity) that EXPAND returns, as a table and, in a notebook, as HTML
trees. ``via`` is the relative before it on the path from the entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from ..rendering import markup
from ..rendering.columnar import Columnar, NamedRows

_COLUMNS = ("entity", "tree", "level", "relative", "via", "text")
_COLUMN_TYPES = ("TEXT", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT")


@dataclass(frozen=True, slots=True)
class Relative:
    """An ancestor or descendant of an entity: ``level`` edges below it (negative: above), reached through ``via``."""

    entity: str
    tree: str
    level: int
    relative: str
    via: str
    text: str


class Relatives(Columnar, list[Relative]):
    """The relatives that EXPAND returns; a notebook draws them as trees."""

    def _get_named_rows(self) -> NamedRows:
        """Return the column names, a row for each relative, and the SQL types of the columns."""
        return _COLUMNS, [*map(astuple, self)], _COLUMN_TYPES

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return render_relatives(self)


def render_relatives(relatives: Iterable[Relative]) -> str:
    """Return the HTML of relatives: a nested list for each entity in each of its trees.

    If several edges reach a relative, only its first occurrence is followed by its own relatives. A remark reports that
    a limit left out relatives.
    """
    groups: dict[tuple[str, str], list[Relative]] = {}
    for relative in relatives:
        groups.setdefault((relative.entity, relative.tree), []).append(relative)
    pieces: list[str] = []
    for (entity, tree), members in groups.items():
        pieces.append(f"<p><b><bdi>{markup.escape(entity)}</bdi></b> in <bdi>{markup.escape(tree)}</bdi></p>")
        for label, direction in (("above", -1), ("below", 1)):
            # By the name before them on their path (``via``), and by the length of the path.
            branches: dict[tuple[str, int], list[Relative]] = {}
            for member in members:
                if member.level * direction > 0:
                    branches.setdefault((member.via, abs(member.level)), []).append(member)
            if branches:
                nearest = [relative for branch in branches.values() for relative in branch if abs(relative.level) == 1]
                branch_html = "".join(_render_branch(nearest, branches, rendered_names=set(), distance=1))
                pieces.append(f"<ul><li>{label}{branch_html}</li></ul>")
        # The text of a row whose relative is an ellipsis reports the limit.
        limit_rows = (member for member in members if not member.level and not member.via and member.relative == "…")
        pieces += [markup.render_remark(row.text) for row in limit_rows]
    return f"<div>{''.join(pieces)}</div>"


def _render_branch(
    relatives: Sequence[Relative],
    branches: Mapping[tuple[str, int], list[Relative]],
    rendered_names: set[str],
    distance: int,
) -> Iterator[str]:
    """Yield the HTML of ``relatives`` as a list, each with its own relatives unless its name is in ``rendered_names``.

    At most ``MAX_DEPTH`` levels are rendered. ``distance`` is the number of levels from the entity to these relatives.
    ``branches`` maps a name and a distance to the relatives at that distance which are reached through the name. The
    rendered names are added to ``rendered_names``.
    """
    yield "<ul>"
    for relative in relatives:
        # The generated text "A is under B" only repeats the edge.
        note = relative.text if " is under " not in relative.text else ""
        yield f"<li>{markup.render_name(relative.relative, note)}"
        children = [] if relative.relative in rendered_names else branches.get((relative.relative, distance + 1), [])
        rendered_names.add(relative.relative)
        if children and distance < markup.MAX_DEPTH:
            yield from _render_branch(children, branches, rendered_names, distance + 1)
        yield "</li>"
    yield "</ul>"
