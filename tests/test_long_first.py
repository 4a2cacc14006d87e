"""Long tests are begun first, and shared out evenly."""

from __future__ import annotations

from long_first import put_long_first


def test_every_process_begins_with_its_share_of_the_long_ones() -> None:
    def order_items(items: str, processes: int) -> str:
        return "".join(put_long_first(items, str.isupper, processes))

    assert order_items("aAbBcCdDef", 1) == "ABCDabcdef"
    assert order_items("aAbBcCdDef", 2) == "ACabcBDdef"
    assert order_items("aAbBcCdDef", 3) == "ADaBbcCdef"
    assert order_items("ABCDa", 3) == "ADBCa"
    assert order_items("abc", 2) == "abc" and order_items("", 3) == ""
