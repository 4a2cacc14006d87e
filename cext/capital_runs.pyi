"""Python interface of the kernel; see capital_runs.pyx."""

from collections.abc import Callable, Mapping

class RunRules:
    def __init__(
        self,
        words: Mapping[str, frozenset[str] | frozenset[tuple[str, str]]],
        ends: Mapping[str, tuple[str, ...]],
        longest: int,
        kind_of: Callable[[str], str | None],
        is_digest: Callable[[str], object],
        is_contraction: Callable[[str], object],
    ) -> None: ...
    def is_of_people(self, word: str) -> bool: ...
    def is_heading_of_page(self, run: list[str]) -> bool: ...

class CapitalRuns:
    def __init__(self, rules: RunRules, pieces: list[list[str]], common: set[str], capitalised: set[str]) -> None: ...
    def forms(self, sentence: int) -> list[list[str] | str]: ...

def is_of_code(word: str) -> bool: ...
