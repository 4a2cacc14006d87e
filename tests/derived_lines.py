"""A maintained index from outside: the lines of a document of some length, and its triples as lines; for tests only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvstore.arguments import Option
from kvstore.registry.contract import ChunkedText, Derivation, MaintainedIndex, System
from kvstore.settings import FixedSettings


class Lines(Derivation):
    name = "lines"
    version = 1
    facts = ("triples",)
    quantised = True

    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, Any]) -> Any:
        chunks = (document.get_chunk_text(chunk).decode() for chunk in range(len(document.chunks)))
        lines = (line.strip() for chunk in chunks for line in chunk.replace(". ", ".\n").split("\n"))
        triples = document.facts["triples"].triples if "triples" in document.facts else ()
        triple_lines = [" ".join(triple) for triple in triples]
        return [line for line in lines if len(line) >= options["least"] and line] + triple_lines

    def list_texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        return [f"{document.title}: {line}" if document.title else line for line in part]

    def find_faults(self, part: Any, document: ChunkedText) -> Iterator[str]:
        yield from (f"line {line!r} is too long" for line in part if len(line) > 1000)


OPTIONS = {"least": Option(0, 0, 100, "characters of the shortest line")}
LINES_INDEX = MaintainedIndex(Lines(), "the lines of documents", OPTIONS)
LINES = System("lines", "of no paper", indexes=(LINES_INDEX,))
