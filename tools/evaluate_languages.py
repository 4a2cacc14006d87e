"""Measure search and answers in several languages on XQuAD: the same paragraphs and questions in each of them. A
*record* is a paragraph or a question. The articles form two *halves*; a store of one cannot answer about the other.

    python tools/evaluate_languages.py [LANGUAGE | mixed | QUESTION_LANGUAGE:TEXT_LANGUAGE ...] [--questions N]
                                       [--choose] [--data FOLDER] [--store FOLDER] [--stemmer NAME]
                                       [--details FILE] [--json]

Every store is new, with the settings that an ingest of the paragraphs chooses. The questions are ``N`` of the second
half, evenly spaced; ``--choose`` takes them from the first half, on which thresholds are chosen.

Figures of a LANGUAGE (``de``): ``hit@1`` of the default and of ``lexical``; ``held`` (the answer contains the fact),
``first`` (its first sentence does) and ``refused``, of all questions; ``foreign_refused``: the same questions asked of
a store of the other half, which cannot answer them; ``bytes``: the store's size; ``cpu_s``: processor time of its
ingest. In the ``mixed`` set, each article is in one of four languages, and so are the questions about it. Figure of a
pair (``de:en``): ``hit@5`` of questions in one language on paragraphs in the other.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from evaluate_answers import format_table
from evaluation.question_sets import read_json_lines
from measured_on import ROOT

import kvstore
from kvstore.evaluation.asked_questions import extract_first_sentence
from kvstore.text.normalize import fold_text

Record = Mapping[str, Any]

#: The languages of the articles of the ``mixed`` set.
MIXED_LANGUAGES = ("de", "en", "es", "ru")


def get_half(paragraph_id: str) -> int:
    """Return the half, 0 or 1, of a paragraph with an id such as "12-3", in which 12 is the article.

    Pairs of consecutive articles belong to the halves in turn.
    """
    return int(paragraph_id.split("-")[0]) // 2 % 2


def load_records(kind: str, name: str, data: Path) -> list[Record]:
    """Return the ``corpus`` or the ``questions`` of a language, or of the ``mixed`` set."""
    if name != "mixed":
        return read_json_lines(data / f"{kind}-{name}.jsonl")
    # Four consecutive articles are in the same language, so that each half has articles in every language.
    records = [
        record
        for index, language in enumerate(MIXED_LANGUAGES)
        for record in read_json_lines(data / f"{kind}-{language}.jsonl")
        if get_article_index(record) // 4 % len(MIXED_LANGUAGES) == index
    ]
    return sorted(records, key=get_article_index)


def get_article_index(record: Record) -> int:
    """Return the index of the article of a paragraph or a question; ids begin with it."""
    return int((record["gold"][0] if "gold" in record else record["id"]).split("-")[0])


def select_evenly(records: list[Record], count: int) -> list[Record]:
    """Return ``count`` of the records, evenly spaced, or all of them if there are fewer."""
    count = min(count, len(records))
    return [records[index * len(records) // count] for index in range(count)]


def fill_store(path: Path, paragraphs: Iterable[Record], settings: Mapping[str, Any]) -> None:
    """Ingest paragraphs as files into a new store, unless it exists."""
    if path.exists():
        return
    with tempfile.TemporaryDirectory() as folder, kvstore.open(path, **settings) as store:
        for paragraph in paragraphs:
            Path(folder, f"{paragraph['id']}.txt").write_text(paragraph["text"], encoding="utf-8")
        store.ingest(folder)


def compute_hit_rate(store: kvstore.Store, questions: list[Record], top: int, strategy: str | None = None) -> float:
    """Return the share of questions whose paragraph is among the first ``top`` hits of a strategy."""
    num_hits = 0
    for question in questions:
        evidence = store.retrieve(question["question"], using=strategy, top=top)
        num_hits += any(hit.document.removesuffix(".txt") in question["gold"] for hit in evidence.hits)
    return round(num_hits / len(questions), 3)


def ask_questions(store: kvstore.Store, questions: list[Record]) -> list[dict[str, Any]]:
    """Return a row for each question: its answer, and True or False for ``refused``, ``held`` and ``first``.

    ``held``: the answer contains an expected fact. ``first``: its first sentence does.
    """
    rows = []
    for question in questions:
        answer = store.ask(question["question"])
        facts = [fact for _, fact in question["answers"]]
        rows.append({
            "question": question["question"], "facts": facts, "text": answer.text,
            "refused": answer.abstained, "confidence": asdict(answer.weighed),
            "held": not answer.abstained and _contains_any(answer.text, facts),
            "first": not answer.abstained and _contains_any(extract_first_sentence(answer.text), facts),
        })  # fmt: skip
    return rows


def _contains_any(text: str, facts: Iterable[str]) -> bool:
    """True if a text contains one of the facts; case and line breaks do not count."""
    folded_text = fold_text(" ".join(text.split()))
    return any(fold_text(fact) in folded_text for fact in facts)


def measure_language(
    language: str, data: Path, folder: Path, count: int, chosen_half: int, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the figures of a language, and a row for each question with its answer.

    The ``count`` questions are about the articles of ``chosen_half``. They are also asked of a store of the other half,
    which should refuse them (``foreign_refused``). ``settings`` are those of ``kvstore.open``.
    """
    paragraphs = load_records("corpus", language, data)
    all_questions = load_records("questions", language, data)
    questions = select_evenly(
        [question for question in all_questions if get_half(question["gold"][0]) == chosen_half], count
    )
    store_path, other_half_path = folder / language, folder / f"{language}-half-{1 - chosen_half}"
    started = time.process_time()
    fill_store(store_path, paragraphs, settings)
    cpu_seconds = time.process_time() - started
    fill_store(
        other_half_path, (paragraph for paragraph in paragraphs if get_half(paragraph["id"]) != chosen_half), settings
    )
    with kvstore.open(store_path) as store:
        hit_rate = compute_hit_rate(store, questions, 1)
        lexical_hit_rate = compute_hit_rate(store, questions, 1, "lexical")
        rows = ask_questions(store, questions)
    with kvstore.open(other_half_path) as store:
        foreign_rows = ask_questions(store, questions)
    figures = {
        "set": language,
        "hit@1": hit_rate,
        "hit@1 lexical": lexical_hit_rate,
        **{outcome: _compute_share(rows, outcome) for outcome in ("held", "first", "refused")},
        "foreign_refused": _compute_share(foreign_rows, "refused"),
        "bytes": (store_path / "data.mdb").stat().st_size,
        "cpu_s": round(cpu_seconds, 1),
    }
    return figures, [
        *({"set": language, "kind": "answerable", **row} for row in rows),
        *({"set": language, "kind": "foreign", **row} for row in foreign_rows),
    ]


def _compute_share(rows: list[dict[str, Any]], outcome: str) -> float:
    """Return the share of the rows of questions that have an outcome, such as ``refused``."""
    return round(sum(row[outcome] for row in rows) / len(rows), 3)


def measure_pair(
    pair: str, data: Path, folder: Path, count: int, chosen_half: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the hit rate of questions in one language on paragraphs in another, for a pair such as ``de:en``."""
    question_language, text_language = pair.split(":")
    questions = read_json_lines(data / f"questions-{question_language}.jsonl")
    questions = select_evenly(
        [question for question in questions if get_half(question["gold"][0]) == chosen_half], count
    )
    path = folder / f"{text_language}-multilingual"
    settings = {"embedder": "multilingual-e5-small", **settings}
    fill_store(path, read_json_lines(data / f"corpus-{text_language}.jsonl"), settings)
    with kvstore.open(path) as store:
        return {"set": pair, "hit@5": compute_hit_rate(store, questions, 5)}


@click.command()
@click.argument("sets", nargs=-1, metavar="LANGUAGE...")
@click.option("--questions", "count", default=60, help="The number of questions in each language.")
@click.option("--choose", is_flag=True, help="Ask about the half that thresholds are chosen on.")
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), default=ROOT.parent / "shared" / "data" / "languages"
)
@click.option(
    "--store", "store_folder", type=click.Path(path_type=Path), help="Folder of the stores; existing stores are used."
)
@click.option("--stemmer", help="The stemmer of every store, such as jieba.")
@click.option("--embedder", help="The embedder of every store.")
@click.option("--details", type=click.Path(path_type=Path), help="Write every question with its answer, as JSON lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    sets: tuple[str, ...],
    count: int,
    choose: bool,
    data: Path,
    store_folder: Path | None,
    stemmer: str | None,
    embedder: str | None,
    details: Path | None,
    as_json: bool,
) -> None:
    """Print the figures of each language, by default of all six, of a mixed set and of two pairs."""
    rows, details_rows = [], []
    chosen_half = 0 if choose else 1
    settings: dict[str, Any] = {"settings": {"stemmer": stemmer}} if stemmer else {}
    if embedder:
        settings["embedder"] = embedder
    with tempfile.TemporaryDirectory() as scratch:
        folder = store_folder or Path(scratch)
        folder.mkdir(exist_ok=True, parents=True)
        for name in sets or ("en", "de", "es", "ru", "zh", "ar", "mixed", "de:en", "en:de"):
            if ":" in name:
                rows.append(measure_pair(name, data, folder, count, chosen_half, settings))
                continue
            figures, question_rows = measure_language(name, data, folder, count, chosen_half, settings)
            rows.append(figures)
            details_rows += question_rows
    if details is not None:
        details.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in details_rows), encoding="utf-8"
        )
    print(json.dumps({"rows": rows}) if as_json else format_table(rows))


if __name__ == "__main__":
    main()
