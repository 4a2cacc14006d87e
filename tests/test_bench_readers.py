"""The HTML reader on pages of every shape: the text that it keeps and the text that it leaves out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

from bench_readers import measure_page  # noqa: E402
from reader_pages.generated import GENERATORS, Page, Unavailable  # noqa: E402
from reader_pages.written import iter_pages  # noqa: E402


def check_page(page: Page) -> None:
    measurement = measure_page(page)
    assert measurement.kept >= 0.995, measurement.lost
    assert measurement.left_out >= 0.95, measurement.added
    assert measurement.source_words > 80
    assert measurement.other_words > 5


@pytest.mark.parametrize("page", list(iter_pages()), ids=lambda page: f"{page.generator} {page.name}")
def test_pages_of_every_shape_are_read_whole_and_without_navigation(page: Page) -> None:
    check_page(page)


@pytest.mark.slow
@pytest.mark.parametrize("generator", GENERATORS)
def test_generated_pages_are_read_completely_and_without_navigation(generator: str, tmp_path: Path) -> None:
    try:
        pages = GENERATORS[generator](tmp_path, sys.executable)
    except Unavailable as error:
        pytest.skip(f"{generator} cannot be run: {error}")
    for page in pages:
        check_page(page)


def test_the_benchmark_reports_every_page() -> None:
    command = [sys.executable, str(TOOLS / "bench_readers.py"), "--written", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    pages = json.loads(process.stdout)["pages"]
    assert {page["generator"] for page in pages} == {page.generator for page in iter_pages()}
    assert all(0.95 <= page["left_out"] <= 1 for page in pages)
