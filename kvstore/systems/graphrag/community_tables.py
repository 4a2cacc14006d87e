"""Communities as tables of SELECT, and what DESCRIBE says of them.

In: one state of a store. Out: rows, and properties; none where there is no index of kind ``communities``. A text that a
model wrote is shown while all that it was written from is there, else the sentences of documents that are left.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import InputError
from ...structures.indexes.generations import bind_generation
from ...structures.state import State
from ...text.blocks import format_summary_sentence
from ..reader import Reader
from ..sql_table import SqlTable, SqlValue, TableRow, TableRows, hash_row
from .communities import Communities
from .community_index import COMMUNITIES

#: Members that DESCRIBE names.
_NAMED = 20


def get_communities(state: State) -> Communities | None:
    """The communities of a state; None where it has no such index, or it is not built yet."""
    return bind_generation(state, COMMUNITIES)


def get_community_text(state: State, communities: Communities, community: int) -> str:
    """What a community is about: what a model wrote, or the sentences that sum it up."""
    model_text = communities.written(community)
    if model_text is not None:
        findings = (finding["explanation"] for finding in model_text.value["findings"])
        return "\n".join((model_text.value["summary"], *findings))
    spans = communities.summary(community)
    pieces = (state.documents.text_slice(span.document, span.start, span.end) for span in spans)
    return " ".join(map(format_summary_sentence, pieces))


def _numbers(reader: Reader) -> TableRows:
    communities = get_communities(reader.view)
    if communities is not None:
        yield from filter(communities.alive, range(len(communities)))


def _called(reader: Reader, key: str) -> TableRows:
    communities = get_communities(reader.view)
    community = None if communities is None else communities.find(key)
    if community is not None:
        yield community


def _column(
    kind: str, read: Callable[[State, Communities, int], SqlValue]
) -> tuple[str, Callable[[Reader, TableRow, Any], SqlValue]]:
    def value(reader: Reader, row: TableRow, record: Any) -> SqlValue:
        communities = get_communities(reader.view)
        assert communities is not None  # its rows are those of an index
        return read(reader.view, communities, row if isinstance(row, int) else row[0])

    return kind, value


def _parent(state: State, communities: Communities, community: int) -> str | None:
    parent = communities.get(community).parent
    return None if parent is None else communities.key(parent)


def _get_model_name(state: State, communities: Communities, community: int) -> str | None:
    model_text = communities.written(community)
    return None if model_text is None else model_text.model


COMMUNITY_TABLE = SqlTable(
    "communities",
    "entities that belong together, by level (0: the coarsest), and what they are about; of the index communities",
    {
        "community": _column("TEXT", lambda state, communities, number: communities.key(number)),
        "level": _column("INTEGER", lambda state, communities, number: communities.get(number).level),
        "parent": _column("TEXT", _parent),
        "title": _column("TEXT", lambda state, communities, number: communities.title(number)),
        "entities": _column("INTEGER", lambda state, communities, number: len(communities.members(number))),
        "passages": _column("INTEGER", lambda state, communities, number: len(communities.passages(number))),
        "documents": _column("INTEGER", lambda state, communities, number: communities.documents(number)),
        "rating": _column("REAL", lambda state, communities, number: communities.get(number).rating),
        "stale": _column("INTEGER", lambda state, communities, number: communities.stale(number)),
        "written_by": _column("TEXT", _get_model_name),
        "text": _column("TEXT", get_community_text),
    },
    scan=_numbers,
    equal={"community": _called},
)


def _iter_member_rows(reader: Reader) -> Iterator[tuple[int, int, float]]:
    for number in _numbers(reader):
        yield from _iter_members(reader, number)


def _iter_members(reader: Reader, number: int) -> Iterator[tuple[int, int, float]]:
    communities = get_communities(reader.view)
    assert communities is not None
    for entity, weight in communities.members(number):
        yield number, entity, weight


def _iter_memberships(reader: Reader, name: str) -> TableRows:
    communities, entity = get_communities(reader.view), reader.entity_id(name)
    if communities is None or entity is None:
        return
    for number in communities.of_entity(entity):
        for row in _iter_members(reader, number):
            if reader.get_entity_name(row[1]) == name:
                yield row


MEMBER_TABLE = SqlTable(
    "community_members",
    "which entities each community has, with the weight of what joins each to the others in it",
    {
        "community": _column("TEXT", lambda state, communities, number: communities.key(number)),
        "level": _column("INTEGER", lambda state, communities, number: communities.get(number).level),
        "entity": ("TEXT", lambda reader, row, record: reader.get_entity_name(row[1])),
        "weight": ("REAL", lambda reader, row, record: row[2]),
    },
    scan=_iter_member_rows,
    number=hash_row,
    equal={
        "entity": _iter_memberships,
        "community": lambda reader, key: (row for one in _called(reader, key) for row in _iter_members(reader, one)),
    },
)


def describe_community(state: State, key: str) -> Mapping[str, Any]:
    """The properties of a community; raises InputError where there is none of this key, or no index."""
    communities = get_communities(state)
    if communities is None:
        raise InputError("there are no communities; CREATE INDEX communities finds them")
    number = communities.find(key)
    if number is None:
        keys = (communities.key(candidate) for candidate in range(len(communities)) if communities.alive(candidate))
        matches = difflib.get_close_matches(key, keys, 1)
        remedy = f"did you mean {matches[0]!r}?" if matches else "SELECT community, title FROM communities lists them"
        raise InputError(f"there is no community {key!r}; {remedy}")
    community = communities.get(number)
    members = [entity for entity, _ in communities.members(number)]
    model_text = communities.written(number)
    findings = (finding.span for finding in communities.findings(number))
    return {
        "community": communities.key(number),
        "level": community.level,
        "title": communities.title(number),
        "parent": _parent(state, communities, number),
        "children": [communities.key(child) for child in community.children if communities.alive(child)],
        "entities": len(members),
        "strongest": [state.entities.get(entity).name for entity in members[:_NAMED]],
        "passages": len(communities.passages(number)),
        "documents": communities.documents(number),
        "rating": community.rating,
        "stale": communities.stale(number),
        "written by": None if model_text is None else model_text.model,
        "text": get_community_text(state, communities, number),
        "findings": [
            format_summary_sentence(state.documents.text_slice(span.document, span.start, span.end))
            for span in findings
        ],
    }


def describe_entity_communities(state: State, entity: int) -> Mapping[str, Any]:
    """What DESCRIBE ENTITY adds: the communities of an entity, the coarsest first."""
    communities = get_communities(state)
    return (
        {}
        if communities is None
        else {
            "communities": [
                communities.key(number) for number in communities.of_entity(entity) if communities.alive(number)
            ]
        }
    )
