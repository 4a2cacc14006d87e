"""LOOKUP: the locations of an entity, the most informative first. A *node* is a place of an entity in a tree of the
entity forest. A *declared* tree comes from users or data, others from relations in prose. An *abstract* is a summary of
a part of a document; a *leaf* abstract is directly above chunks.

In: names as typed. Out: :class:`~kvstore.retrieval.evidence.Location` rows: nodes of declared trees, then titles and
headings, then nodes in the tree of relations extracted from prose, then text, chunks dense in mentions before passing
ones. At most half of the rows are tree nodes if documents would fill the rest. Names of the same entity return the same
rows, under the entity's name. An unknown name has no rows. The cost depends on the number of rows and on how many
locations tie with the last of them, not on the store's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ..structures.documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE
from ..structures.filter import addresses
from ..structures.forest.forest import RELATIONS_TREE
from ..structures.names.aliases import Identity
from ..structures.state import State
from ..text.blocks import to_plain_text, unwrap_links
from ..text.normalize import to_entity_key
from ..text.sentences import split_sentences
from .evidence import Location
from .ordered_addresses import AbstractAddress, get_tree_names, list_ranked_addresses

#: The number of addresses read beyond the limit, so that ties are broken by their content.
_NUM_EXTRA_ADDRESSES = 64
#: The maximum number of children that the text of a tree location names.
_MAX_NAMED_CHILDREN = 3


def iter_locations(state: State, name: str, limit: int) -> Iterator[Location]:
    """Yield at most ``limit`` locations of the entity with a name, the most informative first; none if it is unknown.

    The order is: nodes of declared trees, titles and headings, nodes of the tree of relations extracted from prose,
    other text.
    """
    key = to_entity_key(name)
    identity = state.resolve(key) if key else None  # the entity with all its names
    if identity is None:
        return
    display_name = state.entities.get(identity.entry.entity).name
    nodes, abstract_addresses = list_ranked_addresses(state, identity, limit + _NUM_EXTRA_ADDRESSES)

    def list_tree_locations(nodes: Sequence[int], max_rows: int) -> list[Location]:
        """Return the first ``max_rows`` locations at the nodes."""
        rows = (row for node in nodes for row in _iter_tree_locations(state, node, display_name, identity))
        return list(islice(rows, max_rows))

    trees = get_tree_names(state, nodes)
    declared_nodes = [node for node in nodes if trees[node] != RELATIONS_TREE]
    prose_nodes = [node for node in nodes if trees[node] == RELATIONS_TREE]  # of relations extracted from prose
    # At most half of the rows are tree nodes, or more if there are too few abstracts to fill the rest.
    max_tree_rows = max(limit - len(abstract_addresses), (limit + 1) // 2)
    declared_locations = list_tree_locations(declared_nodes, max_tree_rows)
    prose_locations = list_tree_locations(prose_nodes, max_tree_rows - len(declared_locations))
    abstract_addresses = abstract_addresses[: limit - len(declared_locations) - len(prose_locations)]
    # Abstracts that a heading names come first.
    num_headings = sum(address.rank < addresses.MIN_BODY_RANK for address in abstract_addresses)
    yield from declared_locations
    for address in abstract_addresses[:num_headings]:
        yield _build_abstract_location(state, address, display_name, identity)
    yield from prose_locations
    for address in abstract_addresses[num_headings:]:
        yield _build_abstract_location(state, address, display_name, identity)


def _iter_tree_locations(state: State, node: int, display_name: str, identity: Identity) -> Iterator[Location]:
    """Yield the locations at a node of the entity trees: one for each parent, or one without a parent for a root.

    Their texts name the parent and at most ``_MAX_NAMED_CHILDREN`` children. ``identity`` is the entity at the node,
    which is shown as ``display_name``.
    """
    forest = state.forest
    tree = forest.get_tree_name(forest.get_node(node).tree)
    level = forest.compute_level(node)
    children = forest.sort_by_name(forest.iter_children(node))
    children_text = ", ".join(_list_node_names(state, children[:_MAX_NAMED_CHILDREN]))
    children_text += ", …" if len(children) > _MAX_NAMED_CHILDREN else ""
    parents: list[str | None] = [*_list_node_names(state, forest.sort_by_name(forest.iter_parents(node)))] or [None]
    for parent in parents:
        text = f"{display_name} is under {parent}" if parent else f"{display_name} is a root"
        text += f"; above {children_text}" if children_text else ""
        yield Location(
            entity=display_name,
            temperature=identity.entry.temperature,
            tree=tree,
            level=level,
            parent=parent,
            document=None,
            abstract=None,
            text=text,
        )


def _list_node_names(state: State, nodes: Sequence[int]) -> list[str]:
    """Return the name of the entity at each node of the trees of entities, in order."""
    return [record.name for record in state.entities.get_many([state.forest.get_node(node).entity for node in nodes])]


def _build_abstract_location(state: State, address: AbstractAddress, display_name: str, identity: Identity) -> Location:
    """Return the location of an entity at an abstract that mentions it.

    The text is the abstract's text or, if the entity is mentioned in the text below a leaf abstract, the first sentence
    or heading that does so.
    """
    rank, abstract, record = address
    document = state.documents.get(record.document)
    parent_record = None if record.parent is None else state.abstracts.get(record.parent)
    parent = None if parent_record is None else state.abstracts.get_heading(parent_record)
    text = None
    if rank >= addresses.MIN_BODY_RANK and abstract < FIRST_UPPER_ABSTRACT:  # in the text below a leaf abstract
        text = _find_mention_sentence(state, record.document, abstract, identity.entity_ids)
    if text is None:
        text = state.abstracts.read_text(record)
    return Location(
        entity=display_name,
        temperature=identity.entry.temperature,
        tree=None,
        level=record.level,
        parent=parent,
        document=document.key,
        abstract=document.get_abstract_ordinal(abstract),
        text=text,
    )


def _find_mention_sentence(state: State, document: int, leaf: int, entities: list[int]) -> str | None:
    """Return the first sentence that mentions one of ``entities`` in the chunks that a leaf abstract summarizes.

    If the sentence is in a table, only the row is returned. If no sentence mentions one, the first heading that does so
    is returned, or else None. ``document``, ``leaf`` and ``entities`` are ids.
    """
    heading = None
    chunks = range(GROUP_SIZE * leaf, GROUP_SIZE * leaf + GROUP_SIZE)  # the chunk ids below a leaf abstract
    for chunk, mentions in zip(chunks, state.mentions.get_occurrences_many(chunks), strict=True):
        mention_starts = [start for entity, start, _ in mentions if entity in entities]  # in bytes
        if not mention_starts:
            continue
        text = state.read_chunk_text(chunk)
        encoded_text = text.encode()
        mention_offsets = [len(encoded_text[:start].decode()) for start in mention_starts]  # in characters
        for start, end in split_sentences(text, state.find_sentence_language(document)):
            mention_offset = next((offset for offset in mention_offsets if start <= offset < end), None)
            is_heading = text.startswith("#", start)
            if mention_offset is not None and is_heading:
                heading = heading or to_plain_text(unwrap_links(text[start:end].lstrip("#")))
            elif mention_offset is not None:
                row = _find_table_row(text, mention_offset)
                return to_plain_text(unwrap_links(text[start:end] if row is None else row))
    return heading


def _find_table_row(text: str, offset: int) -> str | None:
    """Return the cells of the table row at a character offset of a Markdown text, or None if no row is there."""
    line_start = text.rfind("\n", 0, offset) + 1
    line = text[line_start:].partition("\n")[0].strip()
    return line.strip("| ") if line.startswith("|") and line.count("|") > 1 else None
