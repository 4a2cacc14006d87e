"""SQL tables of communities (groups of related entities), and their properties for DESCRIBE. A community's *key*, such
as ``1/vienna``, is its level and its first member by name. A community is *visible* if some of its members and chunks
still exist.

In: one state of a store. Out: rows and properties; empty if the store has no index of kind ``communities``. A report
written by a model is shown only while all its sources exist; otherwise the remaining extracted sentences are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import InputError, suggest
from ...registry.sql_table import SqlTable, SqlValue, TableRow, TableRows, hash_row
from ...registry.table_reader import TableReader
from ...structures.indexes.generations import bind_generation
from ...structures.state import State
from ...text.blocks import format_summary_sentence
from .communities import Communities
from .community_index import COMMUNITIES

#: The number of members that DESCRIBE lists.
_MAX_NAMED_MEMBERS = 20


def get_communities(state: State) -> Communities | None:
    """Return the communities in a state of the store; None if its ``communities`` index is missing or not built yet."""
    return bind_generation(state, COMMUNITIES)


def get_community_text(state: State, communities: Communities, community: int) -> str:
    """Return the text about a community: the report that a model wrote, or else the sentences of its summary.

    The text of a model's report is its summary, followed by the explanation of each finding on a line of its own.
    """
    model_text = communities.get_written_text(community)
    if model_text is not None:
        findings = (finding["explanation"] for finding in model_text.value["findings"])
        return "\n".join((model_text.value["summary"], *findings))
    pieces = map(communities.read_text, communities.list_summary_spans(community))
    return " ".join(map(format_summary_sentence, pieces))


def _iter_visible_communities(reader: TableReader) -> TableRows:
    """Yield the rows of the ``communities`` SQL table: the ids of communities that still have members and chunks.

    There are none without a ``communities`` index.
    """
    communities = get_communities(reader.state)
    if communities is not None:
        yield from filter(communities.is_visible, range(len(communities)))


def _iter_by_key(reader: TableReader, key: str) -> TableRows:
    """Yield the id of the community with this key, such as ``1/vienna``, if it exists."""
    communities = get_communities(reader.state)
    community = None if communities is None else communities.find(key)
    if community is not None:
        yield community


def _make_column(
    sql_type: str, read: Callable[[State, Communities, int], SqlValue]
) -> tuple[str, Callable[[TableReader, TableRow, Any], SqlValue]]:
    """Return a column of an SQL table: its type, and a function that reads its value for a row.

    ``read`` returns the value, given the state of the store, its communities and the id of the row's community.
    """

    def read_value(reader: TableReader, row: TableRow, record: Any) -> SqlValue:
        """Return the value of the column for a row, which is a community or begins with one."""
        communities = get_communities(reader.state)
        assert communities is not None  # rows exist only if the index does
        community = row if isinstance(row, int) else row[0]
        return read(reader.state, communities, community)

    return sql_type, read_value


def _get_parent_key(state: State, communities: Communities, community: int) -> str | None:
    """Return the key of a community's parent, or None for a root."""
    parent = communities.get(community).parent
    return None if parent is None else communities.get_key(parent)


def _get_report_model(state: State, communities: Communities, community: int) -> str | None:
    """Return the name of the language model that wrote a community's report, or None if no model did."""
    model_text = communities.get_written_text(community)
    return None if model_text is None else model_text.model


COMMUNITY_TABLE = SqlTable(
    "communities",
    "communities in the communities index (groups of related entities) with reports; level 0 is the coarsest",
    {
        "community": _make_column("TEXT", lambda state, communities, community: communities.get_key(community)),
        "level": _make_column("INTEGER", lambda state, communities, community: communities.get(community).level),
        "parent": _make_column("TEXT", _get_parent_key),
        "title": _make_column("TEXT", lambda state, communities, community: communities.get_title(community)),
        "entities": _make_column(
            "INTEGER", lambda state, communities, community: len(communities.list_members(community))
        ),
        "passages": _make_column(
            "INTEGER", lambda state, communities, community: len(communities.list_chunks(community))
        ),
        "documents": _make_column(
            "INTEGER", lambda state, communities, community: communities.count_documents(community)
        ),
        "rating": _make_column("REAL", lambda state, communities, community: communities.get(community).rating),
        "stale": _make_column("INTEGER", lambda state, communities, community: communities.is_stale(community)),
        "written_by": _make_column("TEXT", _get_report_model),
        "text": _make_column("TEXT", get_community_text),
    },
    scan=_iter_visible_communities,
    equality_lookups={"community": _iter_by_key},
)


def _iter_member_rows(reader: TableReader) -> Iterator[tuple[int, int, float]]:
    """Yield the rows of ``community_members`` for all communities that the reader can see.

    A row is (community id, member id, total weight of the member's edges inside the community).
    """
    for community in _iter_visible_communities(reader):
        yield from _iter_members(reader, community)


def _iter_members(reader: TableReader, community: int) -> Iterator[tuple[int, int, float]]:
    """Yield the rows (community, entity, weight) of ``community_members`` for one community, strongest member first."""
    communities = get_communities(reader.state)
    assert communities is not None
    for entity, weight in communities.list_members(community):
        yield community, entity, weight


def _iter_memberships(reader: TableReader, name: str) -> TableRows:
    """Yield the rows of ``community_members`` (community, entity, weight) for the entity displayed as ``name``."""
    communities, entity = get_communities(reader.state), reader.find_entity(name)
    if communities is None or entity is None:
        return
    for community in communities.find_by_entity(entity):
        for _, member, weight in _iter_members(reader, community):
            if reader.get_entity_name(member) == name:  # another spelling of the name also leads to the entity
                yield community, member, weight


MEMBER_TABLE = SqlTable(
    "community_members",
    "entities of each community, with the total weight of their relations within it",
    {
        "community": _make_column("TEXT", lambda state, communities, community: communities.get_key(community)),
        "level": _make_column("INTEGER", lambda state, communities, community: communities.get(community).level),
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(row[1])),
        "weight": ("REAL", lambda reader, row, record: row[2]),
    },
    scan=_iter_member_rows,
    get_rowid=hash_row,
    equality_lookups={
        "entity": _iter_memberships,
        "community": lambda reader, key: (
            row for community in _iter_by_key(reader, key) for row in _iter_members(reader, community)
        ),
    },
)


def _make_unknown_error(communities: Communities, key: str) -> InputError:
    """Return the error for a key, such as ``1/vienna``, that no community has; it suggests a similar key, if any."""
    keys = (
        communities.get_key(community) for community in range(len(communities)) if communities.is_visible(community)
    )
    suggestion = suggest(key, keys)
    remedy = (
        f"did you mean {suggestion!r}?" if suggestion else "run SELECT community, title FROM communities to list them"
    )
    return InputError(f"there is no community {key!r}; {remedy}")


def load_community_properties(state: State, key: str) -> Mapping[str, Any]:
    """Return the properties of a community, by name, for DESCRIBE and the explorer.

    ``key`` is its level and first member, for example ``1/vienna``. Raises InputError if it is unknown or there is no
    ``communities`` index.
    """
    communities = get_communities(state)
    if communities is None:
        raise InputError("there are no communities; run CREATE INDEX communities to build them")
    community = communities.find(key)
    if community is None:
        raise _make_unknown_error(communities, key)
    record = communities.get(community)
    members = [entity for entity, _ in communities.list_members(community)]
    model_text = communities.get_written_text(community)
    findings = (finding.span for finding in communities.list_findings(community))
    return {
        "community": communities.get_key(community),
        "level": record.level,
        "title": communities.get_title(community),
        "parent": _get_parent_key(state, communities, community),
        "children": [communities.get_key(child) for child in record.children if communities.is_visible(child)],
        "entities": len(members),
        "strongest": [state.entities.get(entity).name for entity in members[:_MAX_NAMED_MEMBERS]],
        "passages": len(communities.list_chunks(community)),
        "documents": communities.count_documents(community),
        "rating": record.rating,
        "stale": communities.is_stale(community),
        "written by": None if model_text is None else model_text.model,
        "text": get_community_text(state, communities, community),
        "findings": [format_summary_sentence(communities.read_text(span)) for span in findings],
    }


def build_entity_properties(state: State, entity: int) -> Mapping[str, Any]:
    """Return the property that DESCRIBE ENTITY adds to an entity: ``communities``, the keys of its communities.

    The coarsest comes first. Without a ``communities`` index, there is no property.
    """
    communities = get_communities(state)
    if communities is None:
        return {}
    visible_communities = filter(communities.is_visible, communities.find_by_entity(entity))
    return {"communities": [communities.get_key(community) for community in visible_communities]}
