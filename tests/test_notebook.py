"""A notebook run by Jupyter's own machinery: a cell run twice, an answer, tables, data frames, jupysql's magics."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.integrations.progress_bar import ProgressBar

OPENING = 'store = kvstore.open("notes", embedder="hashing", settings={"language": "rules"})'
#: The cells, each by a name. The dialect is named as an installed kvstore names it to SQLAlchemy.
CELLS = {
    "imports": """
from sqlalchemy.dialects import registry
registry.register("kvstore", "kvstore.integrations.sqlalchemy_dialect", "KvstoreDialect")
import kvstore
""",
    "open": OPENING,
    "open again": OPENING,
    "empty store": "store",
    "put": """
_ = store.put("tea", "Tea is made from leaves. Robert Fortune took it to India. <script>alert(1)</script>")
_ = store.put("coffee", "Coffee is brewed from roasted seeds.", meta={"year": 2024})
_ = store.put_edge("Darjeeling", "India", tree="places")
""",
    "ask": 'store.ask("What is tea made from?")',
    "progress": """
from pathlib import Path
from kvstore.integrations.progress_bar import ProgressBar
Path("folder").mkdir()
Path("folder/milk.md").write_text("Milk is white.")
_ = store.ingest("folder", workers=0, progress=ProgressBar())
_ = store.delete("milk.md")
""",
    "evidence": 'store.retrieve("Where was tea taken?", using="lexical")',
    "table": 'cursor = store.execute("SELECT key, meta FROM documents ORDER BY key")\ncursor',
    "rows are left": "cursor.fetchall()",
    "tree": 'store.expand("India")',
    "data frame": "store.execute(\"SELECT key, meta ->> 'year' AS year FROM documents ORDER BY key\").to_pandas()",
    "arrow": 'store.execute("SELECT key FROM documents ORDER BY key").to_arrow().column("key").to_pylist()',
    "magic": "%load_ext sql\n%sql kvstore:///notes",
    "statement": "%%sql\nLOOKUP 'Robert Fortune'",
    "from pandas": 'import pandas\npandas.read_sql("ASK \'What is tea made from?\'", "kvstore:///notes")',
    "close": "%sql --close kvstore:///notes\nstore.close()",
}


def test_a_bar_without_a_notebook_is_a_line(
    store: kvstore.Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    (tmp_path / "milk.md").write_text("Milk is white.")
    bar = ProgressBar()
    store.ingest(tmp_path / "milk.md", workers=0, progress=bar)
    captured = capsys.readouterr()
    assert (captured.out, captured.err.endswith("1 of 1 file, 1 document, 1 chunk\x1b[K\n")) == ("", True)
    store.create_index("topics", progress=bar)
    assert str(bar).startswith("topics: ")
    store.close()
    assert "closed" in store._repr_html_()


@pytest.mark.slow
def test_a_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "pandas", "pyarrow", "sql", "sqlalchemy"):
        pytest.importorskip(needed)
    from nbformat import v4

    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("PLOOMBER_STATS_ENABLED", "false")
    os.makedirs(tmp_path / "here")
    notebook: Any = v4.new_notebook(cells=[v4.new_code_cell(source) for source in CELLS.values()])
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path / "here")}}
    ).execute()

    outputs: dict[str, dict[str, str]] = {}
    for name, cell in zip(CELLS, notebook.cells, strict=True):
        results = [output["data"] for output in cell.outputs if "data" in output]
        outputs[name] = results[-1] if results else {}
    assert outputs["open again"] == {}
    html = {name: data.get("text/html", "") for name, data in outputs.items()}
    assert "<td>0</td>" in html["empty store"] and "hashing:256" in html["empty store"]
    assert '<progress value="1.000" max="1"></progress> 1 of 1 file, 1 document, 1 chunk' in html["progress"]
    assert "<mark>Tea is made from leaves.</mark>" in html["ask"]
    assert "&lt;script&gt;" in html["ask"]
    assert "<td dir=" in html["evidence"]
    assert "Robert Fortune" in html["evidence"]
    assert "<th dir=" in html["table"]
    assert outputs["rows are left"]["text/plain"] == "[('coffee', '{\"year\": 2024}'), ('tea', '{}')]"
    assert "<bdi>Darjeeling</bdi>" in html["tree"]
    assert "coffee" in html["data frame"]
    assert outputs["arrow"]["text/plain"] == "['coffee', 'tea']"
    assert "tea" in html["statement"]
    assert "Tea is made from leaves" in html["from pandas"]
    assert not any("<script" in html[name] for name in ("ask", "evidence", "table", "tree"))
