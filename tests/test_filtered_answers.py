"""A condition on documents is a permission: nothing that only excluded documents state is in any output.

The store has public and secret documents that share names. Twenty words occur in secret documents only, as keys,
titles, headings, metadata, names, relations and parts of hierarchies. Strategies, methods with a condition, MCP tools,
prompts and resources are listed by the program, so that a new one is tested or fails here.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from model_server import Server
from test_communities import answer_report, write_reports

import kvstore
from kvstore.arguments import Choice
from kvstore.integrations.store_tools import StoreTools
from kvstore.registry import INDEXES

WHERE = "key LIKE 'hr/%'"
#: The beginnings of words that only secret documents have, by where they have them.
SECRETS = {
    "key": "quorvex",
    "title": "zimbrandt",
    "heading": "pelgrithe",
    "subheading": "morvandale",
    "metadata name": "thaxil",
    "metadata value": "oberquill",
    "person": "drascovia",
    "place": "fennimoor",
    "organization": "glaxenby",
    "relation in prose": "hartwexel",
    "acronym": "jvqt",
    "parent of a pair": "kelptarn",
    "child of a pair": "lumbrick",
    "tree of pairs": "nethercott",
    "list": "ostrevane",
    "list entry": "pryndle",
    "subject of a triple": "quaggmire",
    "relation of a triple": "rostigern",
    "object of a triple": "skarvelle",
    "spelling": "jeopardiz",
}
QUESTIONS = (
    "Who is Ada Lovelace?",
    "Give an overview of all documents.",
    "How is Ada Lovelace related to Grace Hopper and the Analytical Engine?",
    "What do the main themes say about the committee in Vienna?",
    "What did Drascovia decide in Vienna?",
    "Which projects jeopardise Ada Lovelace?",
    'Where is "Drascovija" in Fenimoor?',
)


def find_leaked_words(output: object, question: str = "") -> list[str]:
    """Return the secret words in an output that the question itself does not have."""
    text = (output if isinstance(output, str) else repr(output)).casefold()
    return [word for word in SECRETS.values() if word in text and word not in question.casefold()]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filtered") / "store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        for number, sentence in enumerate(
            (
                "Ada Lovelace is the head of the Analytical Engine project. Grace Hopper is a friend of Ada Lovelace.",
                "Ada Lovelace works in Vienna with the Salary Committee. The Salary Committee meets in Vienna.",
                "Grace Hopper joined the Analytical Engine project in Vienna. Ada Lovelace wrote the first plan.",
                "The Salary Committee is part of the Works Council. Grace Hopper leads the Works Council.",
            )
        ):
            text = f"# Staff\n\n{sentence}\n\n# Vienna\n\nThe office in Vienna is open on day {number}."
            store.put(
                f"hr/staff-{number}", text, title=f"Staff {number}", meta={"year": 2020 + number}, format="markdown"
            )
        store.put("hr/tree", "Ada Lovelace,Salary Committee\nGrace Hopper,Salary Committee\n", format="pairs")
        for number in range(6):
            store.put(
                f"board/quorvex-{number}",
                "# Pelgrithe layoffs\n\nAda Lovelace is the deputy of Drascovia. Drascovia is the head of Glaxenby."
                " Grace Hopper hartwexels Drascovia in Fennimoor. Joint Vienna Quota Team (JVQT) jeopardizes the"
                " Analytical Engine.\n\n## Morvandale\n\nThe Salary Committee is part of Glaxenby. Vienna lies in"
                " Fennimoor.\n\n- Ostrevane\n  - Pryndle\n  - Ada Lovelace\n",
                title="Zimbrandt",
                meta={"thaxil": "Oberquill", "year": 2020 + number},
                format="markdown",
            )
        store.put(
            "board/nethercott",
            "Ada Lovelace,Kelptarn\nLumbrick,Ada Lovelace\nGrace Hopper,Kelptarn\nSalary Committee,Grace Hopper\n",
            format="pairs",
        )
        store.put_triples(
            "board/quorvex-0",
            [("Quaggmire", "rostigerns", "Ada Lovelace"), ("Ada Lovelace", "rostigerns", "Skarvelle")],
        )
        store.put_triples("hr/staff-0", [("Ada Lovelace", "mentors", "Grace Hopper")])
        store.put_edge("Vienna", "Austria", tree="places")
        store.alias("AL", "Ada Lovelace")
    return path


@pytest.fixture(scope="module")
def indexed_path(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the store that has every kind of index."""
    copy = tmp_path_factory.mktemp("indexed") / "store"
    with kvstore.open(path) as store:
        store.backup(copy)
    with kvstore.open(copy) as store:
        for kind in INDEXES:
            if kind not in {status.kind for status in store.indexes()}:
                store.execute(f"CREATE INDEX {kind}").fetchall()
    return copy


@pytest.fixture(params=["plain", "indexed"])
def store(request: pytest.FixtureRequest, path: Path, indexed_path: Path) -> Iterator[kvstore.Store]:
    with kvstore.open(path if request.param == "plain" else indexed_path, readonly=True) as store:
        yield store


def list_usable_strategies(store: kvstore.Store) -> list[Any]:
    """Return the strategies that this store can use: all, if it has every index."""
    kinds = {status.kind for status in store.indexes()}
    return [strategy for strategy in store.strategies() if getattr(strategy, "needs", None) in (None, *kinds)]


def iter_option_sets(strategy: Any) -> Iterator[dict[str, Any]]:
    """Yield no options, each value of those that are one of some words, and the hybrid fill."""
    yield {}
    yield {"fill": "hybrid"}
    for name, choice in strategy.options.items():
        if isinstance(choice, Choice):
            yield from ({name: word} for word in choice.choices)


def test_secret_words_are_found_without_a_condition(store: kvstore.Store) -> None:
    """Without a condition the answers have the secrets, so the other tests can fail."""
    outputs = [
        store.retrieve(question, using=strategy.name)
        for strategy in list_usable_strategies(store)
        for question in QUESTIONS
    ]
    assert len(find_leaked_words(outputs)) >= 12


@pytest.mark.slow
def test_no_strategy_shows_a_secret_word(store: kvstore.Store) -> None:
    """Hits, paths, context, abstracts, hints and the steps of EXPLAIN, with each form of result."""
    forms: list[dict[str, Any]] = [{"as_segments": True}, {"within": 300}]
    for strategy in list_usable_strategies(store):
        for question in QUESTIONS:
            clauses = [{"options": options} for options in iter_option_sets(strategy)]
            for form in [*clauses, *forms] if question in QUESTIONS[:2] else [{}]:
                evidence = store.retrieve(question, using=strategy.name, where=WHERE, top=20, **form)
                assert not find_leaked_words(evidence, question), (strategy.name, question, form)
                assert {span.document for hit in evidence.hits for span in hit.spans} <= set(store.keys("hr/"))


#: A call of each method that takes a condition, for a question and a strategy.
METHODS: Mapping[str, Callable[[kvstore.Store, str, str], object]] = {
    "ask": lambda store, question, name: (
        (answer := store.ask(question, using=name, where=WHERE)),
        answer.remarks,
        answer.weighed,
        answer._repr_html_(),
    ),
    "ask_pieces": lambda store, question, name: list(store.ask_pieces(question, using=name, where=WHERE)),
    "prompt": lambda store, question, name: store.prompt(question, using=name, where=WHERE).messages,
    "retrieve": lambda store, question, name: store.retrieve(question, using=name, where=WHERE)._repr_html_(),
    "weigh": lambda store, question, name: store.weigh(question, using=name, where=WHERE),
    "search": lambda store, question, name: [
        store.search(question, using=search, where=WHERE) for search in ("vector", "lexical", "hybrid")
    ],
    "keys": lambda store, question, name: store.keys(where=WHERE),
    "count": lambda store, question, name: store.count(WHERE),
}
#: Methods with a condition that change the store, or ask a model to.
CHANGING = {"delete_where", "extract", "forecast_extract"}


@pytest.mark.slow
def test_no_method_with_a_condition_shows_a_secret_word(store: kvstore.Store) -> None:
    methods = inspect.getmembers(kvstore.Store, inspect.isfunction)
    parameters = {name: set(inspect.signature(method).parameters) for name, method in methods if name[0] != "_"}
    conditional = {name for name, names in parameters.items() if names & {"where", "clauses"}}
    assert conditional == METHODS.keys() | CHANGING
    for strategy in list_usable_strategies(store):
        for question in QUESTIONS:
            for name, call in METHODS.items():
                assert not find_leaked_words(call(store, question, strategy.name), question), (
                    name,
                    strategy.name,
                    question,
                )


@pytest.mark.slow
def test_no_statement_with_a_condition_shows_a_secret_word(store: kvstore.Store) -> None:
    for strategy in list_usable_strategies(store):
        for question in QUESTIONS:
            for verb in ("RETRIEVE", "ASK", "EXPLAIN RETRIEVE", "EXPLAIN ASK", "EXPLAIN ANALYZE ASK"):
                cursor = store.execute(f"{verb} ? USING {strategy.name} WHERE {WHERE}", [question])
                rows = [cursor.fetchall(), cursor.message]
                assert not find_leaked_words(rows, question), (verb, strategy.name, question)


def test_a_secret_name_is_as_unknown_as_any_other(store: kvstore.Store) -> None:
    """An answer says the same of a name whether or not an excluded document has it."""
    for strategy in list_usable_strategies(store):
        texts = [
            store.ask(f"What did {name} decide?", using=strategy.name, where=WHERE).text.partition(" Nearest:")[0]
            for name in ("Drascovia", "Wugglesnipe")
        ]
        assert texts[0].replace("Drascovia", "Wugglesnipe") == texts[1], strategy.name


def test_counts_are_those_of_allowed_documents(path: Path, tmp_path: Path) -> None:
    """Candidates and places of names are counted as in a store of the allowed documents alone."""
    settings = {"language": "rules"}
    with (
        kvstore.open(path, readonly=True) as store,
        kvstore.open(tmp_path / "alone", embedder="hashing", settings=settings) as alone,
    ):
        for key in store.keys("hr/"):
            document = store.get(key)
            assert document is not None
            alone.put(key, document.text, title=document.title, meta=document.meta, format=document.format)
        alone.put_edge("Vienna", "Austria", tree="places")
        alone.alias("AL", "Ada Lovelace")
        for strategy in list_usable_strategies(store):
            for question in QUESTIONS[:4]:
                filtered = store.retrieve(question, using=strategy.name, where=WHERE)
                expected = alone.retrieve(question, using=strategy.name)
                assert filtered.pool == expected.pool, (strategy.name, question)
                assert filtered.context == expected.context, (strategy.name, question)
                for name in ("recognize entities", "find nodes in the forest", "search abstracts, then chunks"):
                    evidences = (filtered, expected)
                    steps = [
                        [(step.detail, step.count) for step in evidence.steps if step.name == name]
                        for evidence in evidences
                    ]
                    assert steps[0] == steps[1], (strategy.name, question, name)


def test_a_transaction_keeps_to_the_condition_too(writable_store: kvstore.Store) -> None:
    with writable_store.transaction() as transaction:
        transaction.put("board/late", "Ada Lovelace is the deputy of Drascovia in Fennimoor.", title="Zimbrandt")
        transaction.put("hr/late", "Ada Lovelace is a friend of Mary Somerville.")
        for strategy in list_usable_strategies(writable_store):
            for question in QUESTIONS:
                evidence = transaction.retrieve(question, using=strategy.name, where=WHERE, top=30)
                assert not find_leaked_words(evidence, question), (strategy.name, question)
        assert "hr/late" in {
            hit.document for hit in transaction.retrieve(QUESTIONS[0], using="graph", where=WHERE).hits
        }


def test_edges_and_aliases_of_the_user_are_visible(store: kvstore.Store) -> None:
    """Statements of the user belong to no document, and are visible under every condition."""
    context = store.retrieve("Where is Vienna?", using="cft", where=WHERE).context
    assert context == ["Vienna (in places) is under Austria"]
    steps = store.retrieve("Who is AL?", using="cft", where=WHERE).steps
    assert any("ada lovelace" in step.detail for step in steps if step.name == "recognize entities")


def test_relations_of_allowed_documents_are_still_shown(store: kvstore.Store) -> None:
    evidence = store.retrieve("Who is Ada Lovelace?", using="cft", where=WHERE)
    assert any(line == "Ada Lovelace (in hr/tree) is under Salary Committee" for line in evidence.context)
    everything = store.retrieve("Who is Ada Lovelace?", using="cft", where="1")
    unfiltered = store.retrieve("Who is Ada Lovelace?", using="cft")
    assert everything.context == unfiltered.context
    assert [hit.path for hit in everything.hits] == [hit.path for hit in unfiltered.hits]


def test_a_condition_leaves_nothing_behind_for_other_questions(path: Path, indexed_path: Path) -> None:
    """Memory that questions share holds all documents."""
    for folder in (path, indexed_path):
        with kvstore.open(folder, readonly=True) as store:
            for strategy in list_usable_strategies(store):
                store.retrieve(QUESTIONS[1], using=strategy.name, where=WHERE)
            after = [
                store.retrieve(QUESTIONS[0], using=strategy.name).hits for strategy in list_usable_strategies(store)
            ]
        with kvstore.open(folder, readonly=True) as store:
            before = [
                store.retrieve(QUESTIONS[0], using=strategy.name).hits for strategy in list_usable_strategies(store)
            ]
        assert before == after


#: The calls of each MCP tool, those among them that are refused.
CALLS: Mapping[str, list[dict[str, Any]]] = {
    "retrieve": [{"question": question, "top": 50} for question in QUESTIONS],
    "ask": [{"question": question} for question in QUESTIONS],
    "lookup": [
        {"name": name, "limit": 50}
        for name in (
            "Ada Lovelace",
            "Ada",
            "Vienna",
            "Drascovia",
            "Drascovija",
            "Glaxenbi",
            "Salary Committee",
            "Ostrevan",
        )
    ],
    "document": [
        {"key": key} for key in ("board/quorvex-1", "board/quorvex", "board/nethercot", "hr/staff-1", "staff")
    ],
    "overview": [{}, {"prefix": "b"}, {"prefix": "hr"}, {"after": "a"}, {"prefix": "board/q"}],
    "put": [
        {"key": "board/quorvex-1", "text": "New."},
        {"key": "board/other", "text": "New."},
        {"key": "hr/new", "text": "Drascovia and Ada Lovelace met."},
    ],
    "delete": [{"key": "board/quorvex-1"}, {"key": "board/quorvex"}, {"key": "hr/new"}],
}


@pytest.fixture
def writable_store(request: pytest.FixtureRequest, indexed_path: Path, tmp_path: Path) -> Iterator[kvstore.Store]:
    """Yield a writable copy of the store, with every index."""
    with kvstore.open(indexed_path, readonly=True) as store:
        store.backup(tmp_path / "served")
    with kvstore.open(tmp_path / "served") as store:
        store.refresh()
        yield store


def call(tools: StoreTools, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the result of a tool, or its error."""
    try:
        return tools.call(name, arguments)
    except kvstore.KvstoreError as error:
        return str(error)


@pytest.mark.slow
def test_no_tool_shows_a_secret_word(writable_store: kvstore.Store) -> None:
    strategies = [strategy.name for strategy in list_usable_strategies(writable_store)]
    assert len(strategies) == len(writable_store.strategies())
    for strategy in strategies:
        tools = StoreTools(writable_store, write=True, tokens=20_000, strategy=strategy, where=WHERE)
        assert tools.tools.keys() == CALLS.keys()
        for name, calls in CALLS.items():
            if "strategy" in tools.tools[name].arguments or strategy == strategies[0]:
                for arguments in calls:
                    request = json.dumps(arguments)
                    assert not find_leaked_words(call(tools, name, arguments), request), (name, arguments, strategy)


def test_put_does_not_reveal_whether_an_excluded_key_exists(writable_store: kvstore.Store) -> None:
    tools = StoreTools(writable_store, write=True, where=WHERE)
    for document in ({"text": "Ada \0 Lovelace"}, {"text": "New.", "title": "t" * 10_000}, {"text": "New."}):
        keys = ("board/quorvex-1", "board/quorvex-9")
        results = [call(tools, "put", {"key": key, **document}) for key in keys]
        assert results[0].replace("-1", "-9") == results[1]
    tools = StoreTools(writable_store, write=True, where="meta ->> 'open' = 1")
    error = call(tools, "put", {"key": "board/quorvex-1", "text": "New.", "meta": {"open": 1}})
    assert error == results[0]
    assert writable_store.get("board/quorvex-1").title == "Zimbrandt"  # type: ignore[union-attr]


#: The kinds of requests of the protocol that the test below sends, or that name no document.
REQUESTS = {
    "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
    "prompts/get", "ping", "server/discover",
}  # fmt: skip


def test_no_resource_or_prompt_shows_a_secret_word(writable_store: kvstore.Store) -> None:
    pytest.importorskip("mcp")
    from mcp import Client, MCPError

    from kvstore.integrations.mcp_server import make_server

    def collect_outputs(strategy: str) -> list[tuple[object, str]]:
        server = make_server(StoreTools(writable_store, write=True, where=WHERE, strategy=strategy))
        assert server._request_handlers.keys() <= REQUESTS
        outputs: list[tuple[object, str]] = []

        async def call_server() -> None:
            async with Client(server) as client:
                outputs.append((await client.list_tools(), ""))
                outputs.append((await client.list_resource_templates(), ""))
                resources = await client.list_resources()
                outputs.append((resources, ""))
                uris = [resource.uri for resource in resources.resources]
                for uri in [*uris, "kvstore:///board%2Fquorvex-1", "kvstore:///board%2Fother"]:
                    try:
                        outputs.append((await client.read_resource(uri), uri))
                    except MCPError as error:
                        outputs.append((str(error), uri))
                prompts = await client.list_prompts()
                outputs.append((prompts, ""))
                assert [prompt.name for prompt in prompts.prompts] == ["answer"]
                for question in QUESTIONS:
                    outputs.append((await client.get_prompt("answer", {"question": question}), question))

        asyncio.run(call_server())
        return outputs

    for strategy in list_usable_strategies(writable_store):
        for output, request in collect_outputs(strategy.name):
            assert not find_leaked_words(output, request), (strategy.name, request)


def test_a_report_written_over_excluded_documents_is_not_shown(writable_store: kvstore.Store, server: Server) -> None:
    """A model's text says what all its sources and names say: one that is excluded excludes it."""
    server.respond = answer_report
    assert write_reports(writable_store)
    for name in ("local", "global", "drift", "archrag"):
        for question in QUESTIONS:
            evidence = writable_store.retrieve(question, using=name, where=WHERE, top=20)
            assert not find_leaked_words(evidence, question), name
        everything = [writable_store.retrieve(question, using=name, top=20) for question in QUESTIONS]
        assert any(
            "A model wrote" in hit.text and find_leaked_words(hit) for evidence in everything for hit in evidence.hits
        ), name
