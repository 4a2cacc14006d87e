"""The reading methods of a store, shared by the store itself, snapshots and transactions.
Each method reads one *state*: the content of the store after one commit.

A ``where`` argument is an SQL condition over the columns of ``documents``, or a mapping such as ``{"year": 2024}``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from ..arguments import check_clauses, check_integer, check_methods, check_text, is_text
from ..errors import InputError
from ..registry import INDEXES, get_index
from ..retrieval.question_clauses import SEARCH_TOP, Clauses
from ..structures.counters import Counters
from ..text.normalize import to_entity_key
from . import entity_reading
from .stored_document import Document, check_chunks, list_matching_keys, read_document, read_vectors

#: The largest number of rows a caller can request.
MAX_ROWS = 2**31 - 1

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..answering.answer import Answer, AnswerPieces
    from ..answering.asking import Asker
    from ..answering.confidence import Confidence
    from ..answering.prompt import Prompt
    from ..derived.passage_graph.neighbors import Neighbours
    from ..retrieval.evidence import Evidence, Hit, Location
    from ..retrieval.relatives import Relatives
    from ..structures.documents.document_triples import Triple
    from ..structures.indexes.generations import Outline
    from ..structures.indexes.index import IndexStatus
    from ..structures.names.aliases import Alias
    from ..structures.state import State
    from ..structures.vectors.vectors import Matrix
    from .session import Session


class Queryable(ABC):
    """The base class of the reading methods, which read the data of one commit that :meth:`state` opens."""

    _session: Session

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the methods of the subclass check their arguments."""
        super().__init_subclass__(**kwargs)
        check_methods(cls)

    @abstractmethod
    def state(self) -> AbstractContextManager[State]:
        """Open the documents and indexes as of one commit, until the end of the ``with`` block.

        This is an interface for extensions of kvstore; the contents of a state can change with any version.
        """

    def __len__(self) -> int:
        """Return the number of documents."""
        with self.state() as state:
            return Counters.load(state.lmdb).documents

    def __bool__(self) -> bool:
        """True even without documents, so that ``if store`` tests for None."""
        return True

    def __contains__(self, key: object) -> bool:
        """True if a document has this key."""
        with self.state() as state:
            return isinstance(key, str) and is_text(key) and state.documents.find_by_key(key) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys of all documents."""
        return iter(self.keys())

    def get(self, key: str) -> Document | None:
        """Return the document with this key, or None.

        >>> store.get("tea").title, store.get("cocoa")
        ('Tea', None)
        """
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> list[Document | None]:
        """Return the documents with these keys, in the same order; None for a missing one. All are read from one state.

        >>> [document and document.title for document in store.get_many(["tea", "cocoa"])]
        ['Tea', None]
        """
        for key in keys:
            check_text("a key", key)
        with self.state() as state:
            return [read_document(state, key) for key in keys]

    def count(
        self, where: str | Mapping[str, Any] | None = None, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> int:
        """Return the number of documents or, with ``where``, the number of documents that satisfy it.

        The condition is SQL over the columns of ``documents``, or a mapping. Raises StatementError for invalid SQL,
        InputError for an invalid mapping.

        >>> store.count(), store.count("meta ->> 'year' >= ?", (2024,)), store.count({"year": {"$gte": 2024}})
        (2, 1, 1)
        """
        from ..sql.document_filter import filter_documents

        with self.state() as state:
            if where is None:
                return Counters.load(state.lmdb).documents
            return len(filter_documents(state, where, parameters).allowed)

    def vectors(self, chunks: Sequence[int | tuple[str, int]]) -> Matrix:
        """Return the stored unit vectors of these chunks, in the same order; shape (chunks, dimension).

        A chunk is given by its id, or by (document key, ordinal), as in a hit; ordinals count from 0. Raises
        InputError for a chunk that does not exist. Ids can differ from one state to the next.

        >>> ids = [id for (id,) in store.execute("SELECT id FROM chunks")]
        >>> store.vectors(ids).shape, store.vectors([("tea", 0)]).shape
        ((2, 256), (1, 256))
        """
        check_chunks(chunks)
        with self.state() as state:
            return read_vectors(state, chunks)

    def triples(self, key: str) -> list[Triple]:
        """Return the triples of the document with this key, imported or written by a model; empty if it has none.

        >>> store.triples("tea")
        []
        """
        from ..structures.documents.document_triples import Triples

        with self.state() as state:
            record = state.documents.find_by_key(key)
            return [] if record is None else list(Triples(state.lmdb).get(record.id).triples)

    def keys(
        self,
        prefix: str = "",
        limit: int | None = None,
        *,
        where: str | Mapping[str, Any] | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> list[str]:
        """Return the document keys that begin with ``prefix``, in order, at most ``limit``.

        ``where`` is a condition over the columns of ``documents``: only keys of documents that satisfy it are returned.
        Raises StatementError for an invalid condition, InputError for an invalid mapping.

        >>> store.keys(), store.keys("t"), store.keys(limit=1), store.keys(where="meta ->> 'year' >= 2024")
        (['coffee', 'tea'], ['tea'], ['coffee'], ['coffee'])
        """
        if limit is not None:
            check_integer("limit", limit, 0, MAX_ROWS)
        with self.state() as state:
            if where is None:
                return list(islice(state.documents.iter_keys(prefix), limit))
            return list_matching_keys(state, where, parameters, prefix)[:limit]

    def names(self, prefix: str = "", limit: int = 20) -> list[str]:
        """Return entity names whose normal form begins with the normal form of ``prefix``, in order, at most ``limit``.

        >>> store.names("ind"), store.names("dar")
        (['India'], ['Darjeeling'])
        """
        check_integer("limit", limit, 0, MAX_ROWS)
        with self.state() as state:
            records = state.entities.iter_with_prefix(to_entity_key(prefix))
            return [record.name for record in islice(records, limit)]

    def lookup(self, *names: str, limit: int = 10) -> list[Location]:
        """Return the locations of entities, the most informative first; an unknown name has none.

        Adds 1 to the temperature (the number of lookups) of each name found. A later :meth:`expand` without an entity
        expands these names. Raises InputError if no name is given or the limit is below 1.

        >>> [(place.tree, place.parent) for place in store.lookup("Darjeeling")]
        [('places', 'India')]
        """
        if not names:
            raise InputError("LOOKUP needs at least one name; specify an entity")
        check_integer("limit", limit, 1)
        with self.state() as state:
            locations = entity_reading.find_all_locations(state, names, limit, self._session.count_lookups)
        self._session.last_lookup = names
        return locations

    def aliases(self) -> list[Alias]:
        """Return the aliases and merges added with :meth:`Transaction.alias` and ``merge``, in order.

        >>> _ = store.alias("Bharat", "India")
        >>> store.aliases()
        [Alias(name='Bharat', entity='India', kind='alias')]
        """
        with self.state() as state:
            return [alias for _, alias in state.aliases.iter_all()]

    def expand(
        self,
        entity: str | None = None,
        *,
        direction: str = "both",
        depth: int = 1,
        tree: str | None = None,
        limit: int = 100,
    ) -> Relatives:
        """Return the relatives of an entity up to ``depth`` levels ``up`` (parents), ``down`` (children) or ``both``.

        Without ``entity``, expand the names of the last lookup. Raises InputError if there is nothing to expand,
        EntityNotFoundError if ``entity`` is unknown.

        >>> [(relative.level, relative.relative) for relative in store.expand("Darjeeling", direction="up")]
        [(0, 'Darjeeling'), (-1, 'India')]
        """
        names = (entity,) if entity is not None else self._session.last_lookup
        if not names:
            raise InputError("EXPAND without an entity expands the last LOOKUP, but none was run; specify an entity")
        check_integer("depth", depth, 0)
        check_integer("limit", limit, 1)
        with self.state() as state:
            return entity_reading.find_relatives(
                state, names, direction=direction, depth=depth, tree=tree, limit=limit, must_exist=entity is not None
            )

    def neighbours(self, name: str, limit: int = 50) -> Neighbours:
        """Return the names nearest to an entity, the strongest first: in its trees, linked, or in the same chunks.

        They are read from the stored graph, so the cost depends only on the entity's own chunks. Raises
        EntityNotFoundError for an unknown name, InputError for a limit below 1.

        >>> store.neighbours("Darjeeling")[0].name, store.neighbours("Darjeeling")[0].above
        ('India', ('places',))
        """
        check_integer("limit", limit, 1, MAX_ROWS)
        with self.state() as state:
            return entity_reading.find_neighbors(state, name, limit)

    def describe_document(self, key: str) -> dict[str, Any]:
        """Return the properties of a document, like DESCRIBE DOCUMENT; raises DocumentNotFoundError.

        >>> store.describe_document("coffee")["meta"]
        {'year': 2024}
        """
        from ..sql import descriptions

        with self.state() as state:
            return descriptions.describe_document(state, key)

    def describe_entity(self, name: str) -> dict[str, Any]:
        """Return the properties of an entity, like DESCRIBE ENTITY; raises EntityNotFoundError.

        >>> store.describe_entity("india")["trees"]
        ['places']
        """
        from ..sql import descriptions

        with self.state() as state:
            return descriptions.describe_entity(state, name)

    def describe(self, kind: str, key: str) -> dict[str, Any]:
        """Return the properties of an item of another kind, such as a community, like ``DESCRIBE kind 'key'``.

        Raises InputError if the kind is unknown or has no item with this key.

        >>> store.describe("community", "0/india")
        Traceback (most recent call last):
        kvstore.errors.InputError: there are no communities; run CREATE INDEX communities to build them
        """
        from ..sql import descriptions

        with self.state() as state:
            return descriptions.describe_item(state, kind, key)

    def indexes(self) -> list[IndexStatus]:
        """Return the status of each index, like SHOW INDEXES.

        >>> [(index.kind, index.state) for index in store.indexes()]
        [('entities', 'exact'), ('lexical', 'exact'), ('vectors', 'exact')]
        """
        from ..structures.indexes.index_reading import list_statuses

        with self.state() as state:
            return list_statuses(state, INDEXES.values())

    def outline(self, kind: str, *, depth: int = 1) -> Outline:
        """Return the groups of an index such as ``topics``, ``depth`` levels deep, each before its members.

        Raises InputError if this kind of index has no groups, or the index does not exist or is not built yet.

        >>> store.create_index("topics")
        >>> [(row.level, row.count) for row in store.outline("topics")]
        [(0, 2)]
        """
        from ..structures.indexes.generations import GenerationIndex, Outline, bind_generation, iter_outline_rows

        check_integer("depth", depth, 1, MAX_ROWS)
        index = get_index(kind)
        if not isinstance(index, GenerationIndex) or not index.has_outline:
            raise InputError(f"index {index.name} has no groups; use an index such as topics")
        with self.state() as state:
            generation = bind_generation(state, index)
            if generation is None:
                raise InputError(f"index {index.name} is not built; CREATE INDEX or REFRESH builds it")
            return Outline(iter_outline_rows(index.build_outline(generation), depth))

    def dump(self) -> Iterator[str]:
        """Yield the statements that recreate these documents, edges and aliases in a new store with the same settings.

        A single state is read until the iterator is exhausted. :meth:`not_in_dump` lists what statements cannot
        express; :meth:`Store.export` includes that too.

        >>> list(store.dump())[:2]
        ['-- embedder hashing:256', 'BEGIN;']
        """
        from ..sql import dumping

        with self.state() as state:
            yield from dumping.dump_statements(state)

    def not_in_dump(self) -> list[str]:
        """Return a message for each fact, or kind of facts, that the statements of :meth:`dump` cannot express.

        >>> store.not_in_dump()
        []
        """
        from ..sql import dumping

        with self.state() as state:
            return list(dumping.iter_dump_comments(state))

    def nearest_names(self, name: str, limit: int = 3) -> list[str]:
        """Return the entity names most similar to ``name``, for error messages about an unknown name.

        >>> store.nearest_names("Darjeling")
        ['Darjeeling']
        """
        from ..sql.suggestions import find_near_names

        check_integer("limit", limit, 1, MAX_ROWS)
        with self.state() as state:
            return find_near_names(state, name, limit)

    def search(
        self,
        text: str = "",
        *,
        using: str = "hybrid",
        where: str | Mapping[str, Any] | None = None,
        top: int = SEARCH_TOP,
        vector: npt.ArrayLike | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> list[Hit]:
        """Return the chunks that a ``vector``, ``lexical`` or ``hybrid`` search finds for a text, best first.

        At most ``top`` chunks of documents that satisfy ``where`` (with its ``parameters``) are returned. ``vector``
        replaces the embedder's vector of the text, which can then be omitted unless the search is lexical. Raises
        InputError for another kind of search (``using``), and the errors of :meth:`retrieve`.

        >>> [hit.document for hit in store.search("roasted seeds", using="lexical", where="key < 'd'")]
        ['coffee']
        """
        if using.lower() not in ("vector", "lexical", "hybrid"):
            raise InputError(f"SEARCH supports vector, lexical and hybrid, not {using!r}; for others, use RETRIEVE")
        from .question_retrieval import prepare_query

        with self.state() as state:
            strategy, query = prepare_query(
                self._session,
                state,
                text,
                using=using,
                where=where,
                top=top,
                vector=vector,
                parameters=parameters,
                allow_empty=True,
            )
            query.abstracts = False  # only chunks, no summaries
            return strategy.retrieve(query).hits

    def retrieve(self, question: str | Sequence[str], **clauses: Unpack[Clauses]) -> Evidence:
        """Retrieve evidence for a question with a strategy (default: the session's), best chunks first.

        The results of several questions, or of several strategies (``using="cue, graph"``), are fused by rank.

        The clauses are those of :class:`~kvstore.retrieval.question_clauses.Clauses`: ``using``, ``depth``, ``top``,
        ``within``, ``where``, ``options``, ``vector``, ``parameters``, ``reranker``, ``as_segments``. The question can
        be empty if ``vector`` is given and the strategy is not lexical. Raises UnknownStrategyError, InputError for
        values out of range, and EmbedderError or RerankerError if a model is unavailable.

        >>> evidence = store.retrieve("Who took tea to India?", using="bridge", top=1)
        >>> evidence.hits[0].document, evidence.steps[0].name
        ('tea', 'recognize entities')
        """
        from .question_retrieval import prepare_query, retrieve_evidence

        check_clauses("retrieve", clauses, Clauses.__annotations__)
        with self.state() as state:
            return retrieve_evidence(*prepare_query(self._session, state, question, allow_empty=True, **clauses))

    def weigh(self, question: str | Sequence[str], **clauses: Unpack[Clauses]) -> tuple[Evidence, Confidence]:
        """Retrieve evidence for a question and estimate how likely the store is to answer it.

        The clauses and errors are those of :meth:`retrieve`.

        >>> evidence, confidence = store.weigh("Which volcano erupted in Iceland?")
        >>> confidence.value < 0.5, confidence.unknown
        (True, ('Iceland',))
        """
        check_clauses("weigh", clauses, Clauses.__annotations__)
        return self._make_asker().weigh(question, clauses)

    def ask(
        self,
        question: str,
        *,
        model: str | None = None,
        words: int | None = None,
        on_text: Callable[[str], None] = lambda text: None,
        **clauses: Unpack[Clauses],
    ) -> Answer:
        """Answer a question with citations: with the language model ``model``, else the session's, else extractively.

        If the confidence (:meth:`weigh`) is below the ``least_confidence`` setting, no model is called, and
        ``abstained`` is true: the text says that the documents do not contain the answer, and the sentences nearest to
        the question follow. It also abstains, with confidence 0, if no model answers and no chunk has a sentence to
        quote. ``words`` (1 to 10,000) is the maximum number of words in an extractive answer; only its first sentence
        may be longer.

        ``on_text`` is called with each piece of text as the model writes it; joined, the pieces are the answer's text.
        If the model's server is down, busy, too slow or stops midway, the answer is extractive and its ``problem``
        gives the reason, even if ``on_text`` already received text. Raises what :meth:`retrieve` raises, and ModelError
        if the model cannot be called.

        >>> answer = store.ask("What is tea made from?")
        >>> answer.text, answer.citations[0].document
        ('Tea is made from leaves. [1]', 'tea')
        """
        from ..models.text_pieces import collect_result

        if words is not None:
            check_integer("words", words, 1, 10_000)
        check_clauses("ask", clauses, Clauses.__annotations__)
        _, pieces = self._make_asker().stream_answer(question, model, clauses, words)
        return collect_result(pieces, on_text)

    def ask_pieces(
        self, question: str, *, model: str | None = None, words: int | None = None, **clauses: Unpack[Clauses]
    ) -> AnswerPieces:
        """Answer a question like :meth:`ask`, as an iterator over pieces of the text.

        The iterator's ``evidence`` is available immediately, and its ``answer`` after the last piece. An answer that no
        model writes is a single piece. If a model stops midway, the pieces contain only what it wrote; ``answer`` is
        extractive then, and its ``problem`` gives the reason. Closing the iterator early stops the model. Raises what
        :meth:`ask` raises: errors about the question before returning, all others while iterating.

        >>> pieces = store.ask_pieces("What is tea made from?")
        >>> pieces.evidence.hits[0].document, "".join(pieces), pieces.answer.citations[0].number
        ('tea', 'Tea is made from leaves. [1]', 1)
        """
        from ..answering.answer import AnswerPieces

        if words is not None:
            check_integer("words", words, 1, 10_000)
        check_clauses("ask_pieces", clauses, Clauses.__annotations__)
        return AnswerPieces(*self._make_asker().stream_answer(question, model, clauses, words))

    def prompt(self, question: str, **clauses: Unpack[Clauses]) -> Prompt:
        """Return the prompt that :meth:`ask` would send to a language model; the clauses are those of :meth:`retrieve`.

        >>> print(store.prompt("What is tea made from?", top=1).user.splitlines()[-1])
        What is tea made from?
        """
        check_clauses("prompt", clauses, Clauses.__annotations__)
        return self._make_asker().prepare_prompt(question, clauses)

    def _make_asker(self) -> Asker:
        """Return an object that answers questions: it reads this object's states, with the settings of its session."""
        from .question_retrieval import import_asker_class, open_query, retrieve_evidence

        return import_asker_class()(
            get_session=lambda: self._session.settings,
            get_language_model=self._session.get_language_model,
            embed=self._session.store.embedder.embed_cached,
            open_query=partial(open_query, self._session, self.state),
            retrieve_evidence=retrieve_evidence,
            retrieve=self.retrieve,
            record_spending=partial(self._session.record_spending, "ASK"),
        )


check_methods(Queryable)
