"""The reading methods of a store, shared by the store itself, snapshots and transactions.

Each method reads a single state of all structures. A ``where`` argument is an SQL condition over the columns of
``documents``, or a mapping such as ``{"year": {"$gte": 2024}}`` (:mod:`kvstore.sql.condition_mapping`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from ..arguments import check_clauses, check_integer, check_methods, check_text, is_text
from ..errors import ArgumentError, InputError, ModelUnavailableError
from ..registry import INDEXES, get_index_kind, get_strategy, list_overview_strategies
from ..retrieval.query import (
    RERANKER_OPTION,
    SEARCH_TOP,
    Clauses,
    Query,
    Strategy,
    check_options,
    get_reranker,
    split_options,
)
from ..structures.counters import Counters
from ..structures.vectors.vectors import cosines, normalize_rows

#: The largest number of rows a caller can request.
MAX_ROWS = 2**31 - 1
_MAX_ID = 2**63 - 1
#: The fewest chunks a prompt must have room for to use segments, which would otherwise crowd out other chunks.
_MIN_PROMPT_CHUNKS = 4

if TYPE_CHECKING:
    from ..answering.answer import Answer, AnswerPieces
    from ..answering.confidence import Confidence
    from ..answering.extractive import Relevance, ScoredPassages
    from ..answering.prompt import Prompt
    from ..derived.passage_graph.neighbors import Neighbours
    from ..models.llm import LanguageModel
    from ..retrieval.evidence import Evidence, Hit, Location, Relatives
    from ..structures.documents.document_triples import Triple
    from ..structures.indexes.generations import Outline
    from ..structures.indexes.index import IndexStatus
    from ..structures.names.aliases import Alias
    from ..structures.state import State
    from ..structures.vectors.vectors import Matrix
    from .context import Context


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document.

    ``bytes`` and ``chunks`` are the size of its text; ``changed`` is a UTC time in ISO 8601. ``source`` is the file it
    came from, ``origin`` the folder that was ingested.
    """

    key: str
    title: str | None
    source: str | None
    meta: dict[str, Any]
    format: str
    text: str
    bytes: int
    chunks: int
    changed: str
    origin: str | None = None


def _read_document(state: State, key: str) -> Document | None:
    record = state.documents.find_by_key(key)
    if record is None:
        return None
    text = state.documents.read_text(record.id).decode()
    return Document(
        record.key,
        record.title,
        record.source,
        record.meta,
        record.format,
        text,
        record.size,
        record.chunk_count,
        record.changed,
        record.origin,
    )


def _find_chunk_id(state: State, chunk: int | tuple[str, int]) -> int:
    """Return the id of a chunk given by id or by (key, ordinal); an unused id if the chunk does not exist."""
    if not isinstance(chunk, tuple):
        return chunk
    key, ordinal = chunk
    record = state.documents.find_by_key(key)
    chunk_id = None if record is None else next(islice(record.chunk_ids(), ordinal, None), None)
    return _MAX_ID if chunk_id is None else chunk_id


class Queryable(ABC):
    """The base class of the reading methods, which read the state that :meth:`state` opens."""

    _context: Context

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_methods(cls)

    @abstractmethod
    def state(self) -> AbstractContextManager[State]:
        """Open one state of all structures, for as long as the context lasts; every method here reads such a state.

        This is an interface for extensions of kvstore; the contents of a state can change with any version.
        """

    def __len__(self) -> int:
        with self.state() as state:
            return Counters.load(state.lmdb).documents

    def __bool__(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        with self.state() as state:
            return isinstance(key, str) and is_text(key) and state.documents.find_by_key(key) is not None

    def __iter__(self) -> Iterator[str]:
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
            return [_read_document(state, key) for key in keys]

    def count(
        self, where: str | Mapping[str, Any] | None = None, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> int:
        """Return the number of documents, or of those that satisfy ``where``.

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
        for chunk in chunks:
            if not isinstance(chunk, tuple):
                check_integer("the id of a chunk", chunk, 0, _MAX_ID)
                continue
            if len(chunk) != 2:
                raise ArgumentError(f"a chunk is its id, or (key of its document, number), not {chunk!r:.60}")
            check_text("the key of a chunk's document", chunk[0])
            check_integer("the number of a chunk in its document", chunk[1], 0, _MAX_ID)
        with self.state() as state:
            records = [state.chunks.find(_find_chunk_id(state, chunk)) for chunk in chunks]
            missing = [chunk for chunk, record in zip(chunks, records, strict=True) if record is None]
            if missing:
                raise InputError(f"there is no chunk {missing[0]}; SELECT id, document, ordinal FROM chunks lists them")
            return state.vectors.gather([(record.block, record.row) for record in records if record is not None])

    def triples(self, key: str) -> list[Triple]:
        """Return the triples that were imported for the document with this key; empty if there are none.

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

        With ``where``, only documents that satisfy this condition over the columns of ``documents`` count. Raises
        StatementError for an invalid condition, InputError for an invalid mapping.

        >>> store.keys(), store.keys("t"), store.keys(limit=1), store.keys(where="meta ->> 'year' >= 2024")
        (['coffee', 'tea'], ['tea'], ['coffee'], ['coffee'])
        """
        if limit is not None:
            check_integer("limit", limit, 0, MAX_ROWS)
        with self.state() as state:
            if where is None:
                return list(islice(state.documents.iter_keys(prefix), limit))
            from ..sql.document_filter import filter_documents

            document_ids = filter_documents(state, where, parameters).allowed.documents.tolist()
            keys = state.documents.get_keys(document_ids)
            # Byte order, as in the branch without a condition.
            matching_keys = sorted(
                (key for key in map(keys.__getitem__, document_ids) if key.startswith(prefix)), key=str.encode
            )
            return matching_keys[:limit]

    def names(self, prefix: str = "", limit: int = 20) -> list[str]:
        """Return entity names whose normal form begins with that of ``prefix``, in order, at most ``limit``.

        >>> store.names("ind"), store.names("dar")
        (['India'], ['Darjeeling'])
        """
        from ..text.normalize import to_entity_key

        check_integer("limit", limit, 0, MAX_ROWS)
        with self.state() as state:
            return [record.name for record in islice(state.entities.iter_with_prefix(to_entity_key(prefix)), limit)]

    def lookup(self, *names: str, limit: int = 10) -> list[Location]:
        """Return the locations of entities, the most informative first; an unknown name has none.

        Each name that is found raises its temperature by one. Raises InputError if no name is given or the limit is
        below 1.

        >>> [(place.tree, place.parent) for place in store.lookup("Darjeeling")]
        [('places', 'India')]
        """
        from ..retrieval.lookup import find_locations
        from ..text.normalize import to_entity_key

        if not names:
            raise InputError("LOOKUP needs at least one name; name an entity")
        check_integer("limit", limit, 1)
        with self.state() as state:
            locations: list[Location] = []
            for name in names:
                rows = list(find_locations(state, name, limit))
                if rows:
                    self._context.count_hits([to_entity_key(rows[0].entity)])
                locations += rows
        self._context.last_lookup = names
        return locations

    def aliases(self) -> list[Alias]:
        """Return the aliases and merges stated with :meth:`Transaction.alias` and ``merge``, in order.

        >>> _ = store.alias("Bharat", "India")
        >>> store.aliases()
        [Alias(name='Bharat', entity='India', kind='alias')]
        """
        with self.state() as state:
            return [alias for _, alias in state.aliases.scan()]

    def expand(
        self,
        entity: str | None = None,
        *,
        direction: str = "both",
        depth: int = 1,
        tree: str | None = None,
        limit: int = 100,
    ) -> Relatives:
        """Return the relatives of an entity, ``depth`` levels up and down.

        Without ``entity``, expand the names of the last lookup. Raises InputError if there is nothing to expand,
        EntityNotFoundError if ``entity`` is unknown.

        >>> [(relative.level, relative.relative) for relative in store.expand("Darjeeling", direction="up")]
        [(0, 'Darjeeling'), (-1, 'India')]
        """
        from ..retrieval.evidence import Relatives
        from ..retrieval.expansion import expand_entity
        from ..sql.suggestions import make_entity_error
        from ..text.normalize import to_entity_key

        names = (entity,) if entity is not None else self._context.last_lookup
        if not names:
            raise InputError("EXPAND without an entity expands the last LOOKUP, and there was none; name an entity")
        check_integer("depth", depth, 0)
        check_integer("limit", limit, 1)
        with self.state() as state:
            rows = Relatives()
            for name in names:
                rows += expand_entity(state, name, direction=direction, depth=depth, tree=tree, limit=limit)
            if not rows and entity is not None and not state.filter.find(to_entity_key(entity)):
                raise make_entity_error(state, entity)
        return rows

    def neighbours(self, name: str, limit: int = 50) -> Neighbours:
        """Return the names nearest to an entity, the strongest first: in its trees, by links, and in the same chunks.

        They are read from the stored graph, so the cost depends only on the entity's own chunks. Raises
        EntityNotFoundError for an unknown name, InputError for a limit below 1.

        >>> store.neighbours("Darjeeling")[0].name, store.neighbours("Darjeeling")[0].above
        ('India', ('places',))
        """
        from ..derived.passage_graph.neighbors import find_neighbours
        from ..sql.suggestions import make_entity_error
        from ..text.normalize import to_entity_key

        check_integer("limit", limit, 1, MAX_ROWS)
        with self.state() as state:
            key = to_entity_key(name)
            identity = state.resolve(key) if key else None
            if identity is None:
                raise make_entity_error(state, name)
            return find_neighbours(state, identity, limit)

    def describe_document(self, key: str) -> dict[str, Any]:
        """Return the properties of a document, like DESCRIBE DOCUMENT; raises DocumentNotFoundError.

        >>> store.describe_document("coffee")["meta"]
        {'year': 2024}
        """
        from ..sql import descriptions

        with self.state() as state:
            return descriptions.document(state, key)

    def describe_entity(self, name: str) -> dict[str, Any]:
        """Return the properties of an entity, like DESCRIBE ENTITY; raises EntityNotFoundError.

        >>> store.describe_entity("india")["trees"]
        ['places']
        """
        from ..sql import descriptions

        with self.state() as state:
            return descriptions.entity(state, name)

    def describe(self, kind: str, key: str) -> dict[str, Any]:
        """Return the properties of an item of another kind, such as a community, like ``DESCRIBE kind 'key'``.

        Raises InputError if the kind is unknown or has no item with this key.

        >>> store.describe("community", "0/india")
        Traceback (most recent call last):
        kvstore.errors.InputError: there are no communities; CREATE INDEX communities finds them
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
        """Return the groups of an index such as ``topics``, each group before its members, like EXPAND.

        Raises InputError if this kind of index has no groups, or the index does not exist or is not built yet.

        >>> store.create_index("topics")
        >>> [(row.level, row.count) for row in store.outline("topics")]
        [(0, 2)]
        """
        from ..structures.indexes.generations import GenerationIndex, Outline, bind_generation, iter_outline_rows

        check_integer("depth", depth, 1, MAX_ROWS)
        index = get_index_kind(kind)
        if not isinstance(index, GenerationIndex) or not index.has_outline:
            raise InputError(f"index {index.name} is no tree of groups")
        with self.state() as state:
            bound = bind_generation(state, index)
            if bound is None:
                raise InputError(f"there is no index {index.name} that is built; CREATE INDEX or REFRESH makes it")
            return Outline(iter_outline_rows(index.build_outline(bound), depth))

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
        """Return one message for each thing that the statements of :meth:`dump` cannot express.

        >>> store.not_in_dump()
        []
        """
        from ..sql import dumping

        with self.state() as state:
            return list(dumping.find_inexpressible(state))

    def nearest_names(self, name: str, limit: int = 3) -> list[str]:
        """Return known names similar to ``name``, for error messages about an unknown name.

        >>> store.nearest_names("Darjeling")
        ['Darjeeling']
        """
        check_integer("limit", limit, 1, MAX_ROWS)
        from ..sql.suggestions import find_near_names

        with self.state() as state:
            return find_near_names(state, name, limit)

    def search(
        self,
        text: str,
        *,
        using: str = "hybrid",
        where: str | Mapping[str, Any] | None = None,
        top: int = SEARCH_TOP,
        vector: npt.ArrayLike | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
    ) -> list[Hit]:
        """Return the chunks that a ``vector``, ``lexical`` or ``hybrid`` search finds for a text, best first.

        ``vector`` replaces the embedder's vector of the text. The text can be empty if ``vector`` is given and the
        search is not lexical.

        >>> [hit.document for hit in store.search("roasted seeds", using="lexical", where="key < 'd'")]
        ['coffee']
        """
        if using.lower() not in ("vector", "lexical", "hybrid"):
            raise InputError(f"SEARCH uses vector, lexical or hybrid, not {using!r}; RETRIEVE takes every strategy")
        with self.state() as state:
            strategy, query = self._prepare_query(
                state,
                text,
                using=using,
                where=where,
                top=top,
                vector=vector,
                parameters=parameters,
                allow_empty=True,
            )
            query.abstracts = False
            return strategy.retrieve(query).hits

    def retrieve(self, question: str, **clauses: Unpack[Clauses]) -> Evidence:
        """Retrieve evidence for a question with a strategy (default: the session's), best chunks first.

        The clauses are those of :class:`~kvstore.retrieval.query.Clauses`: ``using``, ``depth``, ``top``, ``within``,
        ``where``, ``options``, ``vector``, ``parameters``, ``reranker``, ``as_segments``. The question can be
        empty if ``vector`` is given and the strategy is not lexical. Raises UnknownStrategyError, InputError for values
        out of range, and EmbedderError or RerankerError if a model is unavailable.

        >>> evidence = store.retrieve("Who took tea to India?", using="bridge", top=1)
        >>> evidence.hits[0].document, evidence.steps[0].name
        ('tea', 'recognise entities')
        """
        check_clauses("retrieve", clauses, Clauses.__annotations__)
        with self.state() as state:
            strategy, query = self._prepare_query(state, question, allow_empty=True, **clauses)
            return self._retrieve_evidence(strategy, query)

    def weigh(self, question: str, **clauses: Unpack[Clauses]) -> tuple[Evidence, Confidence]:
        """Retrieve evidence for a question and estimate how likely the store is to answer it.

        The clauses and errors are those of :meth:`retrieve`.

        >>> evidence, confidence = store.weigh("Which volcano erupted in Iceland?")
        >>> confidence.value < 0.5, confidence.unknown
        (True, ('Iceland',))
        """
        check_clauses("weigh", clauses, Clauses.__annotations__)
        with self.state() as state:
            strategy, query = self._prepare_query(state, question, **clauses)
            evidence = self._retrieve_evidence(strategy, query)
            return evidence, self._weigh_confidence(query, evidence, self._score_passages(query, evidence))

    def ask(
        self,
        question: str,
        *,
        model: str | None = None,
        on_text: Callable[[str], None] = lambda text: None,
        **clauses: Unpack[Clauses],
    ) -> Answer:
        """Answer a question with citations, by the language model ``model``, else the session's, else extractively.

        If the confidence (:meth:`weigh`) is below the setting ``least_confidence``, the answer has ``abstained``: it
        states that the store does not answer and names the chunks nearest to the question. No model is called then. The
        answer also abstains, with confidence 0, if no model answers and no chunk has a sentence to quote.

        ``on_text`` is called with each piece of text as the model writes it; joined, the pieces are the answer's text.
        If the model's server is down, busy, too slow or stops midway, the answer is extractive and its ``problem``
        gives the reason, even if ``on_text`` already received text. Raises what :meth:`retrieve` raises, and ModelError
        if the model cannot be called.

        >>> answer = store.ask("What is tea made from?")
        >>> answer.text, answer.citations[0].document
        ('Tea is made from leaves. [1]', 'tea')
        """
        from ..models.text_pieces import collect_result

        check_clauses("ask", clauses, Clauses.__annotations__)
        return collect_result(self._stream_answer(question, model, clauses)[1], on_text)

    def ask_pieces(self, question: str, *, model: str | None = None, **clauses: Unpack[Clauses]) -> AnswerPieces:
        """Answer a question like :meth:`ask`, as an iterator over pieces of the text.

        The iterator's ``evidence`` is available at once, and its ``answer`` after the last piece. An answer that no
        model writes is a single piece. If a model stops midway, the pieces contain only what it wrote; ``answer`` is
        extractive then, and its ``problem`` gives the reason. Closing the iterator early stops the model. Raises what
        :meth:`ask` raises: errors about the question before returning, all others while iterating.

        >>> pieces = store.ask_pieces("What is tea made from?")
        >>> pieces.evidence.hits[0].document, "".join(pieces), pieces.answer.citations[0].number
        ('tea', 'Tea is made from leaves. [1]', 1)
        """
        from ..answering.answer import AnswerPieces

        check_clauses("ask_pieces", clauses, Clauses.__annotations__)
        return AnswerPieces(*self._stream_answer(question, model, clauses))

    def _stream_answer(
        self, question: str, model: str | None, clauses: Clauses
    ) -> tuple[Evidence, Generator[str, None, Answer]]:
        """Return the evidence for a question, and a generator that yields the model's text and returns the answer."""
        # Retrieval needs none of the answering code, so it is loaded on first use.
        from ..answering.answer import Answer, yield_finished
        from ..answering.extractive import describe_nearest
        from ..answering.overviews import build_overview, is_overview

        language_model = self._context.get_language_model(model)
        with self.state() as state:
            strategy, query = self._prepare_query(state, question, **clauses)
            if language_model is not None:
                self._request_segments(query)
            evidence = self._retrieve_evidence(strategy, query)
            scored = self._score_passages(query, evidence)
            confidence = self._weigh_confidence(query, evidence, scored)
            if confidence.value < self._context.session.least_confidence:
                text, citations = describe_nearest(evidence, confidence.unknown, confidence.formless)
                abstained = Answer(text, citations, True, None, evidence, weighed=confidence, abstained=True)
                return evidence, yield_finished(abstained)
            overview = None
            if is_overview(question, evidence.hits):
                overview = build_overview(evidence.hits, query.view, include_all=query.within is not None)

        def generate_answer() -> Generator[str, None, Answer]:
            # The state is closed by now, because a model can write for minutes.
            from ..answering.answer import write_answer
            from ..answering.extractive import extract_answer

            problem = None
            if language_model is not None and evidence.hits:
                use_cache = self._context.session.answer_cache
                try:
                    distilled = self._distill_evidence(question, strategy, evidence, language_model, clauses)
                    if distilled.hits:
                        prompt = self._build_prompt(distilled, query)
                        answer = yield from write_answer(
                            distilled, prompt, language_model, use_cache=use_cache, trace=query.trace
                        )
                        return replace(answer, weighed=confidence)
                    problem = f"language model {language_model.name!r} found nothing about this in what it read."
                except ModelUnavailableError as error:
                    problem = f"{error}."
                problem += " This answer is extractive."
            with query.trace.step("choose sentences") as step:
                extracted_answer = overview or extract_answer(evidence, scored)
                text, citations = extracted_answer or describe_nearest(evidence, confidence.unknown)
                reason = "no language model is configured" if problem is None else "the language model did not answer"
                step.detail, step.count = f"extractive: {reason}", len(citations)
            final_confidence = confidence if extracted_answer else replace(confidence, value=0.0)
            return Answer(
                text,
                citations,
                True,
                None,
                evidence,
                problem=problem,
                weighed=final_confidence,
                abstained=extracted_answer is None,
            )

        return evidence, generate_answer()

    def prompt(self, question: str, **clauses: Unpack[Clauses]) -> Prompt:
        """Return the prompt that :meth:`ask` would send to a language model; the clauses are those of :meth:`retrieve`.

        >>> print(store.prompt("What is tea made from?", top=1).user.splitlines()[-1])
        What is tea made from?
        """
        check_clauses("prompt", clauses, Clauses.__annotations__)
        with self.state() as state:
            strategy, query = self._prepare_query(state, question, **clauses)
            self._request_segments(query)
            return self._build_prompt(self._retrieve_evidence(strategy, query), query)

    def _request_segments(self, query: Query) -> None:
        """Request segments in addition to chunks, with about as many tokens as fit in a prompt."""
        # A conservative estimate: a word or punctuation mark is about two tokens of a model.
        tokens = self._context.session.prompt_tokens // 2
        if query.segments == "no" and tokens >= _MIN_PROMPT_CHUNKS * query.view.settings.chunk_tokens:
            query.segments, query.segment_tokens = "beside", tokens

    def _distill_evidence(
        self, question: str, strategy: Strategy, evidence: Evidence, model: LanguageModel, clauses: Clauses
    ) -> Evidence:
        """Return the evidence that an answer is written from, distilled by the model if the strategy does that."""
        distil = getattr(strategy, "distil", None)
        if distil is None:
            return evidence
        from ..answering.distiller import ModelDistiller
        from ..models.structured import StructuredModel

        # The caller's vector belongs to the original question only.
        base_clauses: Clauses = {**clauses, "vector": None}
        reranker = get_reranker(clauses.get("options") or {})

        def retrieve(other_question: str, using: str | None) -> Evidence:
            if using is None:
                return self.retrieve(other_question, **base_clauses)
            # Options belong to one strategy, except the reranker.
            shared_options = None if reranker is None else {RERANKER_OPTION: reranker}
            strategy_clauses: Clauses = {**base_clauses, "using": using, "options": shared_options}
            return self.retrieve(other_question, **strategy_clauses)

        @contextmanager
        def open_query(other_question: str) -> Iterator[Query]:
            with self.state() as state:
                yield self._prepare_query(state, other_question, **base_clauses)[1]

        distilled: Evidence = distil(
            evidence,
            ModelDistiller(
                StructuredModel(model),
                self._context.session.prompt_tokens,
                open_query=open_query,
                retrieve=retrieve,
            ),
        )
        return distilled

    def _retrieve_evidence(self, strategy: Strategy, query: Query) -> Evidence:
        """Return the evidence that a strategy retrieves.

        If the question asks for an overview and the strategy gives none, add a hint that names strategies that do.
        """
        from ..retrieval.evidence import Step
        from ..retrieval.overview import is_overview_question

        evidence = strategy.retrieve(query)
        if query.original_question is not None:
            evidence = replace(evidence, question=query.original_question)
        if query.fill != "none" and len(evidence.hits) < query.top:
            from ..retrieval.filling import fill_evidence

            evidence = fill_evidence(evidence, query, get_strategy(query.fill))
        if getattr(strategy, "overview", False) or not is_overview_question(query.question):
            return evidence
        overview_names = [
            name
            for name in list_overview_strategies()
            if self._find_missing_index(query.view, get_strategy(name)) is None
        ]
        if not overview_names:
            return evidence
        hint = (
            f"the question asks for an overview; USING {' or '.join(overview_names)} gives one of all that may answer"
        )
        evidence.steps.append(Step("hint", hint, None, None))
        return replace(evidence, hint=hint)

    def _build_prompt(self, evidence: Evidence, query: Query) -> Prompt:
        from ..answering.prompt import build_prompt

        budget = self._context.session.prompt_tokens
        with query.trace.step("build prompt") as step:
            prompt = build_prompt(evidence, budget)
            num_included, num_available = len(prompt.passages), len(evidence.segments or evidence.hits)
            size = f"about {prompt.tokens:,} tokens of {budget:,}"
            step.detail, step.count = (
                f"{num_included} of {num_available} passages, {prompt.abstracts} abstracts, {size}",
                num_included,
            )
        return prompt

    def _weigh_confidence(self, query: Query, evidence: Evidence, scored: ScoredPassages) -> Confidence:
        """Estimate the probability that the evidence answers the question, and record it as a step of the query."""
        from ..answering.confidence import estimate_confidence

        with query.trace.step("weigh confidence") as step:
            confidence = estimate_confidence(query, evidence.hits, evidence.context, lambda: scored.snippets.nearest)
            threshold = self._context.session.least_confidence
            verdict = "answers" if confidence.value >= threshold else "does not answer"
            step.detail, step.count = f"{confidence}; {verdict} from {threshold:g} on", len(evidence.hits)
        return confidence

    def _score_passages(self, query: Query, evidence: Evidence) -> ScoredPassages:
        """Return the passages around the evidence, from which an extractive answer is made, with their scorer."""
        from ..answering.extractive import MAX_CHUNKS, ScoredPassages
        from ..answering.passages import build_passages

        return ScoredPassages(build_passages(evidence.hits[:MAX_CHUNKS], query.view), self._build_relevance(query))

    def _build_relevance(self, query: Query) -> Relevance:
        """Return the scorer of statements for a question; it uses words only if the store has no embedder."""
        from ..answering.confidence import compute_question_rarities
        from ..answering.extractive import Relevance
        from ..retrieval.decomposition import decompose
        from ..retrieval.recognition import recognize_entities
        from ..text.words import get_stemmer

        state = query.view
        stem = get_stemmer(state.settings.stemmer)
        rarities = compute_question_rarities(query.question, state)
        if state.settings.embedder.startswith("none:"):
            return Relevance(query.question, rarities, stem, lambda texts: [(0.0, 0.0)] * len(texts))
        uncounted_query = replace(query, count_hits=lambda keys: None)
        rest_vector = query.embed_part(
            decompose(query.question, recognize_entities(uncounted_query, capitalized_only=True)).remainder
        )

        def compute_similarities(texts: Sequence[str]) -> list[tuple[float, float]]:
            vectors = self._context.embed(texts)
            return list(
                zip(cosines(vectors, query.vector).tolist(), cosines(vectors, rest_vector).tolist(), strict=True)
            )

        return Relevance(query.question, rarities, stem, compute_similarities)

    @staticmethod
    def _find_missing_index(state: State, strategy: Strategy) -> str | None:
        """Return the kind of index that a strategy needs and the store lacks, or None."""
        index_name: str | None = getattr(strategy, "needs", None)
        if index_name is None:
            return None
        from ..structures.indexes.indexes import Indexes

        return index_name if Indexes(state.lmdb).get(get_index_kind(index_name)) is None else None

    def _prepare_query(
        self,
        state: State,
        question: str,
        *,
        using: str | None = None,
        depth: int | None = None,
        top: int | None = None,
        within: int | None = None,
        where: str | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        vector: npt.ArrayLike | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        reranker: str | None = None,
        as_segments: bool | None = None,
        allow_empty: bool = False,
    ) -> tuple[Strategy, Query]:
        """Return the strategy and the query for a question; with ``allow_empty``, a vector can replace the text."""
        session = self._context.session
        strategy = get_strategy(using or session.strategy)
        check_options(strategy, options or {}, as_segments=bool(as_segments))
        own_options, fill, reranker_option = split_options(options)
        if reranker is not None and reranker_option not in (None, reranker):
            raise InputError(f"reranker is {reranker!r} and, in options, {reranker_option!r}; leave one out")
        if (missing_index := self._find_missing_index(state, strategy)) is not None:
            raise InputError(
                f"strategy {strategy.name} needs the index {missing_index}: CREATE INDEX {missing_index}; makes it"
            )
        top = session.top if top is None else top
        depth = session.depth if depth is None else depth
        if not question.strip() and not (allow_empty and vector is not None and strategy.name != "lexical"):
            remedy = " or give a vector" if allow_empty and strategy.name != "lexical" else ""
            raise InputError(f"the question is empty; ask something{remedy}")
        check_integer("top", top, 1, 10_000)
        check_integer("depth", depth, 0, 64)
        if within is not None:
            check_integer("within", within, 1)
        from ..retrieval.respelling import respell_question

        query = Query(
            question,
            state,
            self._context.store.embed_query,
            top=top,
            depth=depth,
            within=within,
            options=own_options,
            count_hits=self._context.count_hits,
            rerank=self._context.load_reranker(reranker or reranker_option),
            segments="instead" if as_segments else "no",
            fill=fill,
            given_vector=None if vector is None else normalize_rows(vector, state.settings.dimension, 1)[0],
        )
        if where is not None:
            from ..sql.document_filter import filter_documents

            with query.trace.step("filter documents") as step:
                allowed, step.detail = filter_documents(state, where, parameters)
                step.count = len(allowed)
            query.restrict(allowed)
        query.question, respellings = respell_question(question, query.view)
        if respellings:
            query.original_question = question
            with query.trace.step("respell question") as step:
                changes = (f"{word} → {respelling}" for word, respelling in respellings)
                step.detail, step.count = f"no document has {', '.join(changes)}", len(respellings)
        return strategy, query


check_methods(Queryable)
