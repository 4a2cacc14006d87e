"""Long tests are begun first, and shared out evenly."""

from __future__ import annotations

from long_first import put_long_first


def test_every_process_begins_with_its_share_of_the_long_ones() -> None:
    def ordered(items: str, processes: int) -> str:
        return "".join(put_long_first(items, str.isupper, processes))

    assert ordered("aAbBcCdDef", 1) == "ABCDabcdef"
    assert ordered("aAbBcCdDef", 2) == "ACabcBDdef"
    assert ordered("aAbBcCdDef", 3) == "ADaBbcCdef"
    assert ordered("ABCDa", 3) == "ADBCa"
    assert ordered("abc", 2) == "abc" and ordered("", 3) == ""
