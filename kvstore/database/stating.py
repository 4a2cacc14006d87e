"""What the user states in a transaction besides documents: edges, names that stand for others, and triples.

In: names and trees as typed. On disk: nothing before the transaction is applied. Bad input (an empty or over-long name,
an edge from a name to itself, a circle of names) is an InputError; a name or document that is not known says so, with
the nearest that are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import InputError
from ..extraction.validation import PAIRS
from ..sql.nearby import no_document, no_entity
from ..structures.documents.triples import DocumentTriples, stated_triples
from ..structures.forest.forest import EdgeKey, StatedEdge
from ..structures.names.aliases import ALIAS, MERGE, Alias
from ..text.normalize import entity_key
from ..text.stated_names import stated_name, stated_tree
from .gathering import Gathering, working


class Stating(Gathering):
    """The methods that state and take back what no document says."""

    @working
    def put_triples(
        self, key: str, triples: Iterable[Sequence[str]], *, names: Iterable[str] = (), more: bool = False
    ) -> bool:
        """Join triples (subject, relation, object) that somebody found in a document to it; True when that changes
        anything.

        They stand in place of earlier ones, or beside them with ``more``. They make their names known, those of
        ``names`` too, and link them; they go when the document is deleted or its text is another. Raises
        DocumentNotFoundError, and InputError for what is no triple and for a document of pairs.

        >>> with store.transaction() as transaction:
        ...     transaction.put_triples("tea", [("Robert Fortune", "was born in", "Kelloe")])
        True
        """
        found = stated_triples(triples, names)
        before = self._triples_of(key)
        if more:
            found = before.joined(found)
        if found == before:
            return False
        self._pending.triples[key] = found
        self._pending.size += len(found.names) + len(found.triples)
        self._apply_many()
        return True

    def _triples_of(self, key: str) -> DocumentTriples:
        """What was joined to a document as the transaction sees it."""
        waiting = self._pending.documents.get(key)
        record = None if key in self._pending.documents else self._changes.documents.find(key)
        document = record if waiting is None else waiting.extracted
        if document is None:
            with self.state() as view:
                raise no_document(view, key)
        if document.format == PAIRS:
            raise InputError(f"document {key!r} is made of pairs; triples belong to a document with a text")
        if key in self._pending.triples:
            return self._pending.triples[key]
        return DocumentTriples() if record is None else self._changes.triples.of(record.id)

    @working
    def put_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """State that ``child`` stands under ``parent`` in a tree; False when that was stated by this method before.

        Both names become known. A document may state the same edge: it stays while either does. Raises InputError for
        a name or a tree that is empty or too long, and for an edge from a name to itself.
        """
        edge = _edge(child, parent, tree)
        if self._stated(edge.key):
            return False
        self._pending.edges[edge.key] = edge
        self._pending.size += 1
        self._apply_many()
        return True

    @working
    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Take back what :meth:`put_edge` stated; False where there is no such edge.

        Raises InputError where only documents state it: the edge goes with what they say.
        """
        edge = _edge(child, parent, tree)
        if self._stated(edge.key):
            self._pending.edges[edge.key] = None
            return True
        self._apply()
        nodes = self._changes.edge_nodes(edge.key)
        stating = () if nodes is None else self._changes.forest.stated_by(*nodes)
        if stating:
            keys = ", ".join(repr(self._changes.documents.get(document).key) for document in stating[:3])
            more = f" and {len(stating) - 3} more" if len(stating) > 3 else ""
            raise InputError(
                f"{edge.child!r} is under {edge.parent!r} in tree {edge.tree!r} because document {keys}{more} says so; "
                "change or delete the document"
            )
        return False

    def alias(self, name: str, entity: str) -> bool:
        """Let ``name`` stand for a known entity, wherever it is asked for; False when it does already.

        The name becomes known, and is found in every text. Given again with another entity it stands for that one.
        Raises EntityNotFoundError for an entity that is not known, and InputError for a name that is empty, too long or
        merged, or that the entity itself stands for.
        """
        return self._name(Alias(stated_name(name), stated_name(entity), ALIAS))

    def drop_alias(self, name: str) -> bool:
        """Take back what :meth:`alias` stated; False where ``name`` is no alias. Raises InputError for a merged one."""
        return self._take_back(name, ALIAS)

    def merge(self, name: str, into: str) -> bool:
        """Let a known name stand for another known entity, so that both are read as one; False when it does already.

        As :meth:`alias`, but the name stays known only while something else introduces it.
        """
        return self._name(Alias(stated_name(name), stated_name(into), MERGE))

    def unmerge(self, name: str) -> bool:
        """Take back what :meth:`merge` stated; False where ``name`` is not merged. Raises InputError for an alias."""
        return self._take_back(name, MERGE)

    @working
    def _restate(self, alias: Alias) -> bool:
        """State an alias or a merge in place of whatever was stated of its name, whether or not its names are known.

        For one that was stated before, such as that of an export; False when it stands already. Raises InputError where
        it would close a circle.
        """
        alias = Alias(stated_name(alias.name), stated_name(alias.entity), alias.kind)
        if alias.kind not in (ALIAS, MERGE):
            raise InputError(f"what is stated of a name is an {ALIAS} or a {MERGE}, not {alias.kind!r}")
        if alias == self._alias(alias.key):
            return False
        key = alias.target
        while key != alias.key:
            further = self._alias(key)
            if further is None:
                self._pending.aliases[alias.key] = alias
                self._pending.size += 1
                self._apply_many()
                return True
            key = further.target
        raise InputError(f"{alias.entity!r} is {alias.name!r} already; a name cannot stand for itself")

    @working
    def _name(self, alias: Alias) -> bool:
        stands = self._alias(alias.key)
        if stands is not None and stands.kind != alias.kind:
            raise _other_kind(stands)
        if stands is not None and stands.target == alias.target:
            return False
        with self.state() as view:
            for form in (alias.entity, alias.name) if alias.kind == MERGE else (alias.entity,):
                if view.filter.find(entity_key(form)) is None:
                    raise no_entity(view, form)
        return self._restate(alias)

    @working
    def _take_back(self, name: str, kind: str) -> bool:
        stands = self._alias(entity_key(stated_name(name)))
        if stands is None:
            return False
        if stands.kind != kind:
            raise _other_kind(stands)
        self._pending.aliases[stands.key] = None
        return True

    def _alias(self, key: str) -> Alias | None:
        """What is stated of a name as the transaction sees it."""
        return self._pending.aliases[key] if key in self._pending.aliases else self._changes.aliases.get(key)

    def _stated(self, key: EdgeKey) -> bool:
        """Whether the user states an edge as the transaction sees it."""
        edge = self._pending.edges[key] if key in self._pending.edges else self._changes.stated_edge(key)
        return edge is not None


def _edge(child: str, parent: str, tree: str) -> StatedEdge:
    edge = StatedEdge(stated_name(child), stated_name(parent), stated_tree(tree))
    _, lower, upper = edge.key
    if lower == upper:
        raise InputError(f"{edge.child!r} cannot stand under itself; name another parent")
    return edge


def _other_kind(alias: Alias) -> InputError:
    if alias.kind == MERGE:
        return InputError(f"{alias.name!r} is merged into {alias.entity!r}; UNMERGE ENTITY (unmerge) takes that back")
    return InputError(f"{alias.name!r} is an alias for {alias.entity!r}; DROP ALIAS (drop_alias) takes that back")
