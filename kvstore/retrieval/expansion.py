"""EXPAND: the ancestors and descendants of an entity. A *node* is the place of an entity in a tree; a *step* of a walk
is an edge from the node ``via`` to the next node. An *abstract* is a summary of a part of a document; abstracts form a
tree too. An *assertion* records where a text states an edge.

In: a name, a direction, a depth and a limit. Out: :class:`~kvstore.retrieval.relatives.Relative` rows, nearest first
and then by name. The entity itself has level 0, ancestors have levels below zero, and descendants above. A relative has
one row for each accepted edge that reaches it (``via``). Its own edges are followed only once, so the rows never repeat
a subtree for each path to it. If the limit truncates the rows, the path to the nearest root remains and the last row
reports the limit. Names of the same entity are expanded together and shown under its display name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import InputError
from ..structures.documents.chunks import AbstractRecord
from ..structures.forest.forest import RELATIONS_TREE, Forest, WalkStep
from ..structures.state import State
from ..text.normalize import to_entity_key
from .evidence_sentence import format_evidence_sentence, select_best_assertions
from .ordered_addresses import AbstractAddress, get_tree_names, list_ranked_addresses
from .relatives import Relative

DIRECTIONS = ("up", "down", "both")
#: The maximum number of steps up in the search for the nearest root.
_MAX_SEARCH_STEPS = 10_000
#: The maximum number of documents whose abstract trees are shown for one entity.
_MAX_DOCUMENTS = 3


def expand_entity(
    state: State, name: str, *, direction: str, depth: int, tree: str | None, limit: int
) -> list[Relative]:
    """Return the ancestors and descendants of an entity, up to ``depth`` levels away; empty if the name is unknown.

    ``direction`` is ``up``, ``down`` or ``both``. ``tree`` is the name of the only tree, or the key of the only
    document, to include (None: all). In each of them, a row of level 0 for the entity, or for an abstract that names
    it, precedes its relatives. If there are more than ``limit`` rows, an additional row reports this. Raises InputError
    for an unknown direction or tree.
    """
    if direction not in DIRECTIONS:
        raise InputError(f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
    if tree is not None and state.forest.find_tree(tree) is None and state.documents.find_id(tree) is None:
        raise InputError(
            f"there is no tree {tree!r}; SELECT name FROM trees lists the trees, and a document key also works"
        )
    key = to_entity_key(name)
    identity = state.resolve(key) if key else None  # the entity with all its names
    if identity is None:
        return []
    display_name = state.entities.get(identity.entry.entity).name
    level_signs = {"up": (-1,), "down": (1,), "both": (-1, 1)}[direction]  # the levels of ancestors are negative
    rows: list[Relative] = []
    is_truncated = False
    entity_nodes, abstracts = list_ranked_addresses(state, identity, limit)
    for tree_name, nodes in _group_nodes_by_tree(state, entity_nodes, tree).items():
        rows.append(Relative(entity=display_name, tree=tree_name, level=0, relative=display_name, via="", text=""))
        for is_upward in (sign < 0 for sign in level_signs):
            steps, has_more = _select_steps(state.forest, nodes, is_upward, depth, limit - len(rows))
            start_names = dict.fromkeys(nodes, display_name)
            rows += _iter_forest_relatives(state, display_name, tree_name, start_names, steps, is_upward)
            is_truncated = is_truncated or has_more
    for row in _iter_abstract_relatives(state, abstracts, display_name, level_signs, depth, tree):
        if len(rows) >= limit:
            is_truncated = True
            break
        rows.append(row)
    return _truncate_rows(rows, display_name, limit) if is_truncated else rows


def _truncate_rows(rows: Sequence[Relative], display_name: str, limit: int) -> list[Relative]:
    """Return the first ``limit`` rows of an entity, and a row that reports that there are more."""
    kept_rows = rows[:limit]
    text = f"cut at {limit} rows; LIMIT n shows more"
    last_tree = kept_rows[-1].tree
    return [*kept_rows, Relative(entity=display_name, tree=last_tree, level=0, relative="…", via="", text=text)]


def _group_nodes_by_tree(state: State, nodes: list[int], tree: str | None) -> dict[str, list[int]]:
    """Return nodes of entities grouped by the name of their tree; only those of ``tree`` unless it is None.

    The tree of relations that were extracted from prose is last.
    """
    nodes_by_tree: dict[str, list[int]] = {}
    for node, name in get_tree_names(state, nodes).items():
        if tree is None or tree == name:
            nodes_by_tree.setdefault(name, []).append(node)
    if RELATIONS_TREE in nodes_by_tree:
        nodes_by_tree[RELATIONS_TREE] = nodes_by_tree.pop(RELATIONS_TREE)
    return nodes_by_tree


def _select_steps(
    forest: Forest, nodes: list[int], is_upward: bool, depth: int, limit: int
) -> tuple[list[WalkStep], bool]:
    """Return the nearest ``limit`` steps of a walk from ``nodes`` up or down a tree, and True if there are more.

    ``is_upward`` is True for a walk to ancestors. Steps are at most ``depth`` edges away. If a walk up has more than
    ``limit`` steps, the returned ones include the path to the nearest root unless that path alone is longer. Ties
    between roots are broken by name.
    """
    steps: list[WalkStep] = []
    first_steps: dict[int, WalkStep] = {}  # the first step that reached each node
    roots: list[WalkStep] = []
    for step in forest.walk(nodes, up=is_upward, depth=depth):
        if step.node in nodes:
            continue  # two names of the entity are ancestor and descendant: it is not its own relative
        # Beyond the limit, a walk up goes on until it has reached the nearest roots.
        is_past_root = roots and step.distance > roots[0].distance
        if len(steps) >= limit and (is_past_root or not is_upward or len(steps) >= _MAX_SEARCH_STEPS):
            break
        steps.append(step)
        first_steps.setdefault(step.node, step)
        if is_upward and not is_past_root and next(forest.iter_parents(step.node), None) is None:
            roots.append(step)
    else:  # the walk ended; it can still exceed the limit
        if len(steps) <= limit:
            return steps, False
    # All roots here are equally near.
    root_path: set[WalkStep] = set()  # the steps from the start of the walk to the first root by name
    path_step = min(roots, key=lambda step: forest.get_key(step.node), default=None)
    while path_step is not None:
        root_path.add(path_step)
        path_step = first_steps.get(path_step.via)
    if len(root_path) > limit:
        return steps[: max(0, limit)], True
    other_steps = [step for step in steps if step not in root_path][: limit - len(root_path)]
    selected_steps = root_path.union(other_steps)
    return [step for step in steps if step in selected_steps], True


def _iter_forest_relatives(
    state: State, display_name: str, tree: str, start_names: dict[int, str], steps: list[WalkStep], is_upward: bool
) -> Iterator[Relative]:
    """Yield a row for each step of a walk from an entity in a tree, with a sentence that asserts the step's edge.

    A step leads to a parent if ``is_upward``, otherwise to a child. The level of a row is the distance from the entity,
    negative if ``is_upward``. ``tree`` is the tree's name, ``display_name`` the entity's, and ``start_names`` has the
    names of the first nodes.
    """
    forest = state.forest
    new_nodes = list(dict.fromkeys(step.node for step in steps if step.node not in start_names))
    records = state.entities.get_many([forest.get_node(node).entity for node in new_nodes])
    names = start_names | {node: record.name for node, record in zip(new_nodes, records, strict=True)}
    edges = [(step.via, step.node) if is_upward else (step.node, step.via) for step in steps]
    assertions = select_best_assertions(state, edges)
    for step, (child, parent) in zip(steps, edges, strict=True):
        text = format_evidence_sentence(state, assertions[child, parent], (names[child], names[parent]))
        level = -step.distance if is_upward else step.distance
        yield Relative(
            entity=display_name, tree=tree, level=level, relative=names[step.node], via=names[step.via], text=text
        )


class _AbstractStep(NamedTuple):
    """A step of a walk from abstract to abstract: the ``abstract`` (an id) that it leads to.

    ``level`` is the number of steps from the start, negative for a walk up. ``via`` is the label of the abstract before
    the step.
    """

    abstract: int
    level: int
    via: str


def _list_steps(record: AbstractRecord, level: int, via: str) -> list[_AbstractStep]:
    """Return the steps from an abstract to its parent if ``level`` is negative, otherwise to its children.

    ``level`` is the level of the steps, and ``via`` the label of the abstract.
    """
    parents = [] if record.parent is None else [record.parent]
    return [_AbstractStep(abstract, level, via) for abstract in (parents if level < 0 else record.children)]


def _iter_abstract_relatives(
    state: State,
    addresses: list[AbstractAddress],
    display_name: str,
    level_signs: Sequence[int],
    depth: int,
    tree: str | None,
) -> Iterator[Relative]:
    """Yield rows for the abstracts (summaries) that name an entity, and for those at most ``depth`` levels away.

    ``addresses`` are the abstracts that name it, best first. ``level_signs`` are the directions: -1 is up, 1 is down.
    Abstracts of the first ``_MAX_DOCUMENTS`` documents are included or, unless ``tree`` is None, those of the document
    with this key. Each abstract is included once.
    """
    shown_abstracts: set[int] = set()
    documents: set[int] = set()
    for address in addresses:
        if address.abstract in shown_abstracts:
            continue
        document = state.documents.get(address.record.document)
        if tree is not None and tree != document.key:
            continue
        if document.id not in documents:
            if len(documents) == _MAX_DOCUMENTS:
                continue
            documents.add(document.id)
        # A breadth-first walk from the abstract that names the entity, whose own step has level 0.
        queue = [_AbstractStep(address.abstract, level=0, via="")]
        while queue:
            step = queue.pop(0)
            if abs(step.level) > depth or step.abstract in shown_abstracts:
                continue
            shown_abstracts.add(step.abstract)
            record = state.abstracts.get(step.abstract)
            label = format_abstract_label(state, step.abstract)
            yield Relative(
                entity=display_name,
                tree=document.key,
                level=step.level,
                relative=label,
                via=step.via,
                text=state.abstracts.read_text(record),
            )
            signs = level_signs if step.level == 0 else [-1 if step.level < 0 else 1]
            queue += [next_step for sign in signs for next_step in _list_steps(record, step.level + sign, label)]


def format_abstract_label(state: State, abstract: int) -> str:
    """Return the label of an abstract (a summary): its heading, or its document's title or key, and its ordinal."""
    record = state.abstracts.get(abstract)
    document = state.documents.get(record.document)
    title = state.abstracts.get_heading(record) or document.title or document.key
    return f"{title} [{document.get_abstract_ordinal(abstract)}]"
