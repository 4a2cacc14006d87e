"""Changes of a store one by one: the methods of a transaction, each in a transaction of its own.

In: what :class:`~kvstore.database.transaction.Transaction` takes. On disk: one commit a call. Out: what the
transaction's method returns; errors are its own, and nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from ..changes.embedding_reuse import kept_vectors
from ..extraction.extraction import vectors_for
from ..extraction.validation import examine
from .opened import Opened
from .transaction import derived


class Changing(Opened):
    """The changing methods; each begins a transaction, and commits it."""

    def put(
        self,
        key: str,
        text: str,
        *,
        title: str | None = None,
        source: str | None = None,
        meta: Mapping[str, Any] | None = None,
        format: str = "text",
        vectors: npt.ArrayLike | None = None,
    ) -> bool:
        """Store one document in a transaction of its own; see :meth:`Transaction.put`.

        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        True
        >>> store.put("milk", "Milk goes into tea.", title="Milk", meta={"year": 2025})
        False
        """
        # Everything that takes time is done before the writer's lock keeps others waiting.
        self._require_writable()
        given = examine(key, text, title=title, source=source, meta=meta, format=format)
        if vectors is None:
            with self.state() as view:
                record = view.documents.find(key)
                if record is not None and record.digest == given.digest:
                    return False
        extracted, own = derived(given, self.settings, vectors)
        if own is None:
            with self.state() as view:
                kept = kept_vectors(view, [extracted])
            (rows,) = vectors_for([(extracted, None)], self._context.embed, kept)
        else:
            rows = own
        with self.transaction(models=False) as transaction:
            return transaction._put_extracted(extracted, rows, own_vectors=own is not None)

    def update(
        self,
        key: str,
        *,
        text: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change parts of one document in a transaction of its own; see :meth:`Transaction.update`.

        >>> store.update("coffee", title="Coffee"), store.get("coffee").title
        (True, 'Coffee')
        """
        with self.transaction() as transaction:
            return transaction.update(key, text=text, title=title, meta=meta)

    def delete(self, key: str) -> bool:
        """Delete one document in a transaction of its own; False where there is none.

        >>> store.delete("tea"), store.delete("tea")
        (True, False)
        """
        with self.transaction(models=False) as transaction:
            return transaction.delete(key)

    def delete_where(self, where: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Delete documents by a condition in a transaction of its own; see :meth:`Transaction.delete_where`.

        >>> store.delete_where("meta ->> 'year' >= ?", (2024,)), store.keys()
        (1, ['tea'])
        """
        with self.transaction(models=False) as transaction:
            return transaction.delete_where(where, parameters)

    def put_triples(
        self, key: str, triples: Iterable[Sequence[str]], *, names: Iterable[str] = (), more: bool = False
    ) -> bool:
        """Join triples to a document in a transaction of its own; see :meth:`Transaction.put_triples`.

        >>> store.put_triples("tea", [("Robert Fortune", "was born in", "Kelloe")])
        True
        >>> [place.document for place in store.lookup("Kelloe")]
        []
        >>> store.triples("tea")
        [Triple(subject='Robert Fortune', relation='was born in', object='Kelloe')]
        """
        with self.transaction(models=False) as transaction:
            return transaction.put_triples(key, triples, names=names, more=more)

    def put_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """State an edge in a transaction of its own; see :meth:`Transaction.put_edge`.

        >>> store.put_edge("Assam", "India", tree="places")
        True
        >>> [relative.relative for relative in store.expand("India", direction="down", tree="places")]
        ['India', 'Assam', 'Darjeeling']
        """
        with self.transaction(models=False) as transaction:
            return transaction.put_edge(child, parent, tree=tree)

    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool:
        """Take an edge back in a transaction of its own; see :meth:`Transaction.delete_edge`.

        >>> store.delete_edge("Darjeeling", "India", tree="places")
        True
        """
        with self.transaction(models=False) as transaction:
            return transaction.delete_edge(child, parent, tree=tree)

    def alias(self, name: str, entity: str) -> bool:
        """Let a name stand for a known entity, in a transaction of its own; see :meth:`Transaction.alias`.

        >>> store.alias("Bharat", "India"), store.lookup("bharat")[0].entity
        (True, 'India')
        """
        with self.transaction(models=False) as transaction:
            return transaction.alias(name, entity)

    def drop_alias(self, name: str) -> bool:
        """Take an alias back in a transaction of its own; see :meth:`Transaction.drop_alias`.

        >>> store.alias("Bharat", "India"), store.drop_alias("Bharat")
        (True, True)
        """
        with self.transaction(models=False) as transaction:
            return transaction.drop_alias(name)

    def merge(self, name: str, into: str) -> bool:
        """Read two known names as one, in a transaction of its own; see :meth:`Transaction.merge`.

        >>> store.merge("Darjeeling", "India"), store.aliases()
        (True, [Alias(name='Darjeeling', entity='India', kind='merge')])
        """
        with self.transaction(models=False) as transaction:
            return transaction.merge(name, into)

    def unmerge(self, name: str) -> bool:
        """Take a merge back in a transaction of its own; see :meth:`Transaction.unmerge`.

        >>> store.merge("Darjeeling", "India"), store.unmerge("Darjeeling")
        (True, True)
        """
        with self.transaction(models=False) as transaction:
            return transaction.unmerge(name)
