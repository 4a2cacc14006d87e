"""Python interface of the kernel; see capital_runs.pyx."""

from collections.abc import Callable, Mapping

class RunRules:
    def __init__(
        self,
        words: Mapping[str, frozenset[str] | frozenset[tuple[str, str]]],
        endings: Mapping[str, tuple[str, ...]],
        max_words: int,
        get_kind: Callable[[str], str | None],
        match_digest: Callable[[str], object],
        match_contraction: Callable[[str], object],
    ) -> None: ...
    def is_demonym(self, word: str) -> bool: ...
    def starts_with_page_heading(self, run: list[str]) -> bool: ...

class CapitalRuns:
    def __init__(self, rules: RunRules, pieces: list[list[str]], common: set[str], capitalized: set[str]) -> None: ...
    def list_names(self, sentence: int) -> list[list[str] | str]: ...

def is_code(word: str) -> bool: ...
