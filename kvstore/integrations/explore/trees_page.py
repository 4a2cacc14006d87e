"""The pages of trees: the list of trees, and one tree as nested names. A *tree* is a hierarchy of entities; an entity
can have several parents in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import kvstore

from ...errors import EntityNotFoundError
from ..store_queries import fetch_named_rows
from .list_page import RowQuery
from .page import ExplorerPage, PageContent, PageRequest

#: The maximum number of entities on the page of a tree, and of entities directly below one of them.
_MAX_NAMES, _MAX_CHILDREN = 400, 100
#: The maximum number of names in the path from the root.
_MAX_PATH = 64


def build_list(request: PageRequest) -> PageContent:
    """Return the trees whose name contains ``q``, the largest first, each with the names of up to four roots.

    ``of`` is the number of all trees.
    """
    trees = RowQuery(request, "trees")
    text = trees.filter_by_text("name")
    content = trees.build_page(
        "name, nodes, source",
        "nodes DESC, name",
        details="(SELECT json_group_array(entity) FROM "
        "(SELECT entity FROM nodes WHERE tree = name AND level = 0 ORDER BY entity LIMIT 4)) AS roots",
    )
    for row in content["rows"]:
        row["roots"] = json.loads(row["roots"])
    return content | {"q": text, "of": int(request.store.statistics()["trees"])}


def build_tree(request: PageRequest) -> PageContent:
    """Return an entity tree, or the subtree below the entity ``under``, as nested rows with numbers of children.

    ``under`` is an argument of the request; ``path`` are its ancestors, from a root down. Raises EntityNotFoundError
    for an unknown tree, or an entity that the tree does not contain.
    """
    store, tree = request.store, request.name
    trees = fetch_named_rows(store.query("SELECT name, nodes, source FROM trees WHERE name = ?", (tree,)))
    if not trees:
        raise EntityNotFoundError(f"there is no tree {tree[:80]!r}; /trees lists the trees")
    under = request.get_text("under")
    rows = RowQuery(request, "nodes", size=_MAX_CHILDREN)
    rows.add_condition("tree = ?", tree)
    if under:
        rows.add_condition("entity = ?", under)
    else:
        rows.add_condition("level = 0")
    content = rows.build_page("entity, children", "children DESC, entity")
    if under and not content["rows"]:
        raise EntityNotFoundError(f"the tree {tree[:80]!r} does not contain {under[:80]!r}")
    _add_children(store, tree, content["rows"])
    path = _find_path(store, tree, under) if under else []
    return content | {"tree": trees[0], "under": under, "path": path}


def _add_children(store: kvstore.Store, tree: str, roots: list[dict[str, Any]]) -> None:
    """Add the child nodes of ``roots`` and of their descendants, level by level, in place.

    In the page's JSON, ``children`` is the number of children of a node, and ``below`` lists its child nodes. Once the
    page has its maximum number of entities, ``_MAX_NAMES``, the lists are empty.
    """
    level, num_names = roots, len(roots)
    while level:
        parents = [node["entity"] for node in level if node["children"]] if num_names < _MAX_NAMES else []
        children = _fetch_children(store, tree, parents) if parents else {}
        for node in level:
            child_counts = children.get(node["entity"], []) if num_names < _MAX_NAMES else []
            node["below"] = [{"entity": name, "children": count} for name, count in child_counts]
            num_names += len(child_counts)
        level = [child for node in level for child in node["below"]]


def _fetch_children(store: kvstore.Store, tree: str, parents: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    """Return the children of each of ``parents`` in a tree, with the number of children that each child has itself.

    The children with the most children come first, and at most ``_MAX_CHILDREN`` of a parent are returned.
    """
    rows = store.query(
        "SELECT parent, entity, children FROM (SELECT parent, entity, children, "
        "row_number() OVER (PARTITION BY parent ORDER BY children DESC, entity) AS position "
        "FROM (SELECT DISTINCT edges.parent AS parent, nodes.entity AS entity, children FROM edges JOIN nodes "
        "ON nodes.tree = edges.tree AND nodes.entity = edges.child "
        f"WHERE edges.tree = ? AND accepted AND edges.parent IN ({', '.join('?' * len(parents))}))) "
        "WHERE position <= ? ORDER BY parent, position",
        (tree, *parents, _MAX_CHILDREN),
        max_rows=None,
    )
    children: dict[str, list[tuple[str, int]]] = {}
    for parent, name, count in rows:
        children.setdefault(parent, []).append((name, count))
    return children


def _find_path(store: kvstore.Store, tree: str, name: str) -> list[str]:
    """Return the ancestors of an entity in a tree, from a root down to its parent.

    If an entity has several parents, the first by name is followed. The path ends before a cycle, or after
    ``_MAX_PATH`` ancestors.
    """
    path: list[str] = []
    while len(path) < _MAX_PATH:
        row = store.query(
            "SELECT parent FROM edges WHERE tree = ? AND child = ? AND accepted ORDER BY parent LIMIT 1", (tree, name)
        ).fetchone()
        if row is None:
            break
        (name,) = row
        if name in path:
            break
        path.insert(0, name)
    return path


def _has_tree(store: kvstore.Store, name: str) -> bool:
    """True if the store has a tree with this name."""
    return store.query("SELECT 1 FROM trees WHERE name = ?", (name,)).fetchone() is not None


PAGE = ExplorerPage("/trees", build_list, "trees.html", label="Trees")
TREE_PAGE = ExplorerPage("/tree/", build_tree, "tree.html", is_named=True, exists=_has_tree)
