"""Questions out: strategies, evidence, answers and their citations."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

import kvstore
from kvstore import errors
from kvstore.registry import STRATEGIES
from kvstore.structures.indexes.vector_search import find_nearest_chunks

DOCUMENTS = {
    "ada": ("Ada Lovelace", "Ada Lovelace wrote notes on the Analytical Engine. She was born in London in 1815."),
    "babbage": ("Charles Babbage", "Charles Babbage designed the Analytical Engine. He lived in Marylebone."),
    "engine": ("Analytical Engine", "The engine was to be driven by steam. It was never finished."),
    "tea": ("Tea", "Tea is made from leaves. London drinks much of it."),
    "sea": ("Sea", "The sea is salty. Ships sail over it."),
}


@pytest.fixture
def filled_store(
    copy_store: Callable[..., kvstore.Store], make_needed_indexes: Callable[[kvstore.Store], None]
) -> kvstore.Store:
    def put_documents(store: kvstore.Store) -> None:
        with store.transaction() as transaction:
            for key, (title, text) in DOCUMENTS.items():
                transaction.put(key, text, title=title, meta={"length": len(text)})
        make_needed_indexes(store)

    return copy_store(put_documents)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_finds_the_document_that_answers(filled_store: kvstore.Store, strategy: str) -> None:
    evidence = filled_store.retrieve("Who designed the Analytical Engine?", using=strategy, top=3)
    assert evidence.strategy == strategy
    assert "babbage" in [span.document for hit in evidence.hits for span in hit.spans]
    assert [hit.rank for hit in evidence.hits] == list(range(1, len(evidence.hits) + 1))
    assert all(a.score >= b.score for a, b in itertools.pairwise(evidence.hits))
    assert all(hit.path for hit in evidence.hits)
    assert evidence.steps
    for hit in evidence.hits:
        document = filled_store.get(hit.document)
        assert document is not None
        stored = document.text.encode()[hit.start : hit.end].decode()
        assert stored == hit.text or (hit.kind == "report" and stored in hit.text)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_where_limits_every_strategy(filled_store: kvstore.Store, strategy: str) -> None:
    hits = filled_store.retrieve("the Analytical Engine in London", using=strategy, where="key IN ('tea', 'sea')").hits
    assert {hit.document for hit in hits} <= {"tea", "sea"}
    assert filled_store.retrieve("the Analytical Engine", using=strategy, where="key = 'none'").hits == []
    longer = filled_store.retrieve("engine of London", using=strategy, where="meta ->> 'length' > 70").hits
    assert {hit.document for hit in longer} <= {"ada", "babbage"}


def test_bridge_reads_only_chunks_of_its_entities(filled_store: kvstore.Store) -> None:
    evidence = filled_store.retrieve("When did Charles Babbage live in Marylebone?", using="bridge", depth=0)
    assert {hit.document for hit in evidence.hits} == {"babbage"}
    assert evidence.pool == 1
    assert "charles babbage" in evidence.hits[0].path
    steps = {step.name: step for step in evidence.steps}
    assert steps["recognize entities"].count == 2
    assert evidence.abstracts[0].document == "babbage"


def test_bridge_reports_an_unknown_entity(filled_store: kvstore.Store) -> None:
    evidence = filled_store.retrieve("what swims?", using="bridge")
    assert "no entity known" in [step.name for step in evidence.steps]
    assert evidence.pool == 5


def test_bridge_takes_rare_entities_first_and_caps_its_pool(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(300):
            transaction.put(f"d{number}", f"London notes, part {number}.", title="London")
        transaction.put("rare", "Zanzibar is far from London.", title="Zanzibar")
    evidence = store.retrieve("Is Zanzibar near London?", using="bridge", options={"pool": 0.2})
    assert evidence.pool <= 60
    assert "rare" in [hit.document for hit in evidence.hits[:3]]


def test_depth_reaches_the_neighbouring_abstracts(store: kvstore.Store) -> None:
    parts = [f"## Part {n}\n\n" + f"Filler sentence {n} stands here quietly. " * 60 for n in range(4)]
    parts[2] += "We once saw Zanzibar here."
    store.put("book", "# Book\n\n" + "\n\n".join(parts), format="markdown")
    pools = [store.retrieve("Zanzibar", using="bridge", depth=depth).pool for depth in (0, 1, 2)]
    assert pools[0] <= 5
    assert pools[0] < pools[1] <= pools[2] <= store.statistics()["chunks"]


def test_relatives_displace_no_chunk_of_a_name(store: kvstore.Store) -> None:
    for name in ("Ada Lovelace", "Charles Babbage"):
        text = "\n\n".join(f"{name} came on day {day}. " + f"Filler {day} says little here. " * 20 for day in range(4))
        filler = "\n\n".join(
            f"Nobody came on day {day}. " + f"Filler {day} says little here. " * 20 for day in range(60)
        )
        store.put(name, f"{text}\n\n{filler}")
    pools = []
    for depth in range(4):
        evidence = store.retrieve("Ada Lovelace and Charles Babbage", using="bridge", depth=depth, top=1000)
        pools.append({(hit.document, hit.ordinal) for hit in evidence.hits})
        assert len(pools[-1]) <= 50
    assert all(pools[0] <= pool for pool in pools) and len(pools[0]) < len(pools[3])
    assert {key for key, _ in pools[0]} == {"Ada Lovelace", "Charles Babbage"}


def test_within_limits_the_tokens_of_all_hits(filled_store: kvstore.Store) -> None:
    every = filled_store.retrieve("London engine", top=5).hits
    some = filled_store.retrieve("London engine", top=5, within=30).hits
    assert 0 < len(some) < len(every)


def test_a_retired_option_warns_and_has_no_effect(filled_store: kvstore.Store) -> None:
    hits = filled_store.retrieve("London engine").hits
    with pytest.warns(FutureWarning, match="adaptive: the option words no longer has any effect"):
        assert filled_store.retrieve("London engine", options={"words": 1}).hits == hits
    with pytest.raises(errors.InputError, match="no option 'wrods'"):
        filled_store.retrieve("London engine", options={"wrods": 1})


def test_options_are_checked(filled_store: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="must be between"):
        filled_store.retrieve("x", using="bridge", options={"pool": 7})
    with pytest.raises(errors.InputError, match="must be a number"):
        filled_store.retrieve("x", using="lexical", options={"k1": "high"})
    for wrong in ({"top": 0}, {"depth": -1}, {"within": 0}):
        with pytest.raises(errors.InputError):
            filled_store.retrieve("x", **wrong)
    with pytest.raises(errors.InputError, match="empty"):
        filled_store.ask("  ")
    with pytest.raises(errors.InputError, match="SEARCH supports"):
        filled_store.search("x", using="bridge")


def test_evidence_is_iterated_as_its_hits(filled_store: kvstore.Store) -> None:
    evidence = filled_store.retrieve("wages", top=3)
    assert [hit.rank for hit in evidence] == [1, 2, 3] and list(evidence) == evidence.hits


def test_an_answer_cites_document_chunk_and_bytes(filled_store: kvstore.Store) -> None:
    answer = filled_store.ask("Where was Ada Lovelace born?")
    assert answer.extractive
    assert "London" in answer.text
    assert "[1]" in answer.text
    for citation in answer.citations:
        document = filled_store.get(citation.document)
        assert document is not None
        assert document.text.encode()[citation.start : citation.end].decode() == citation.text
    assert answer.evidence.steps[-1].name == "choose sentences"


def test_an_update_changes_the_answer(filled_store: kvstore.Store) -> None:
    question = "Where was Ada Lovelace born?"
    filled_store.put("ada", "Ada Lovelace was born in Whitehall.", title="Ada Lovelace")
    answer = filled_store.ask(question)
    assert "Whitehall" in answer.text
    assert "1815" not in answer.text


def test_nearest_agrees_with_sorting_everything(filled_store: kvstore.Store) -> None:
    with filled_store.snapshot() as snapshot:
        query = filled_store.embedder.embed_query("engine in London")
        everything = [
            (int(c), float(v @ query))
            for ids, rows in snapshot._state.vectors.scan()
            for c, v in zip(ids, rows, strict=True)
        ]
        expected = [chunk for chunk, _ in sorted(everything, key=lambda item: (-item[1], item[0]))]
        assert [chunk for chunk, _ in find_nearest_chunks(snapshot._state, query, 10)[0]] == expected


def test_lexical_scores_are_bm25(store: kvstore.Store) -> None:
    store.put("a", "apple banana banana")
    store.put("b", "apple cherry")
    store.put("c", "cherry cherry cherry date")
    hits = store.search("banana", using="lexical")
    # idf = ln(1 + (3 - 1 + 0.5) / (1 + 0.5)); tf = 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 3))
    assert [hit.document for hit in hits] == ["a"]
    assert hits[0].score == pytest.approx(0.980829 * 4.4 / 3.2, abs=1e-5)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what does --owner do", "option"),
        ("max_wal_size", "wal"),
        ("the wal size", "wal"),
        ("old_wal_size", "wal"),
        ("/etc/hosts", "path"),
        ("initdb(1)", "page"),
        ("the resume of Zoe Muller", "accents"),
        ("東京の塔", "tower"),
    ],
)
def test_words_are_found_however_they_are_written(store: kvstore.Store, question: str, expected: str) -> None:
    texts = {
        "option": "Use --owner here.",
        "owner": "The owner of an object, the owner that does own: owner.",
        "wal": "Set max_wal_size to 1 GB.",
        "path": "Names stand in /etc/hosts by default.",
        "etc": "Hosts etc. stand here, and hosts.",
        "page": "See initdb(1) for more.",
        "initdb": "Call initdb 1 time, initdb.",
        "accents": "Le résumé de Zoë Müller",
        "tower": "東京タワーは高い塔です。",
        "japan": "日本の山は高い。",
    }
    for key, text in texts.items():
        store.put(key, text)
    assert store.search(question, using="lexical")[0].document == expected


def test_a_name_is_looked_up_without_its_accents(store: kvstore.Store) -> None:
    store.put("zoe", "The artist Zoë Müller lives here.", title="Zoë Müller")
    assert {row.entity for row in store.lookup("zoe muller")} == {"Zoë Müller"}
