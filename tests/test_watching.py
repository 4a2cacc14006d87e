"""Watched folders: reported changes, their times, and no missed change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kvstore
from kvstore import errors
from kvstore_shell import watching
from kvstore_shell.cli import run
from kvstore_shell.watching import PollingWatcher, SystemWatcher, Watcher, ingest_on_change


class ScriptedWatcher:
    """A watcher that returns scripted changes, then raises KeyboardInterrupt."""

    def __init__(self, *changes: bool) -> None:
        self._changes = iter(changes)

    def wait_for_change(self) -> bool:
        for changed in self._changes:
            return changed
        raise KeyboardInterrupt


def test_it_ingests_at_once_and_after_each_change() -> None:
    reports: list[kvstore.IngestReport] = []
    with pytest.raises(KeyboardInterrupt):
        ingest_on_change(ScriptedWatcher(False, True, False, True), kvstore.IngestReport, reports.append, pytest.fail)
    assert len(reports) == 3


def test_a_failing_ingest_is_retried_and_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_RETRY_SECONDS", 0)
    outcomes: Iterator[Exception | None] = iter(
        [errors.LockTimeoutError("held"), errors.LockTimeoutError("held"), errors.StoreFullError("full"), None]
    )

    def ingest_or_fail() -> kvstore.IngestReport:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return kvstore.IngestReport(added=1)

    reports: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        ingest_on_change(ScriptedWatcher(), ingest_or_fail, lambda report: reports.append(report.added), reports.append)
    assert reports == ["held", "full", 1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "store").mkdir(parents=True)
    (folder / "a.md").write_text("Alpha.")
    return folder


WATCHERS: dict[str, Callable[[Path], Watcher]] = {
    "polling": lambda folder: PollingWatcher([folder], folder / "store", quiet_seconds=0.01, interval=0.01),
    "system": lambda folder: SystemWatcher([folder], folder / "store", quiet_seconds=0.01),
}


@pytest.mark.parametrize("kind", ["polling", pytest.param("system", marks=pytest.mark.slow)])
def test_every_kind_of_change_is_reported_once(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "system":
        pytest.importorskip("watchfiles")
    monkeypatch.chdir(folder)  # paths as people type them
    watcher = WATCHERS[kind](Path())
    changes: list[Callable[[], object]] = [
        lambda: (folder / "b.md").write_text("Beta."),
        lambda: (folder / "a.md").write_text("Alpha, changed."),
        lambda: (folder / "b.md").rename(folder / "c.md"),
        lambda: (
            (folder / "inner" / "deep").mkdir(parents=True) or (folder / "inner" / "deep" / "d.md").write_text("D.")
        ),
        lambda: (folder / "c.md").unlink(),
    ]
    for change in changes:
        change()
        assert any(watcher.wait_for_change() for _ in range(1000))
    while watcher.wait_for_change():
        pass  # what was told late
    (folder / "store" / "data.mdb").write_text("what the store itself writes")
    assert not watcher.wait_for_change()


@pytest.mark.slow
def test_a_folder_that_another_took_the_place_of_is_watched(folder: Path) -> None:
    pytest.importorskip("watchfiles")
    watcher = WATCHERS["system"](folder)
    folder.rename(folder.with_name("old"))
    assert watcher.wait_for_change()
    assert not watcher.wait_for_change()
    folder.mkdir()
    assert watcher.wait_for_change()
    (folder / "b.md").write_text("Beta.")
    assert any(watcher.wait_for_change() for _ in range(1000))


def test_without_the_extra_it_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert isinstance(watching.make_watcher([folder], folder / "store", quiet_seconds=1, interval=None), PollingWatcher)


def test_the_command_keeps_a_store_like_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    class RenamingWatcher(ScriptedWatcher):
        def wait_for_change(self) -> bool:
            (folder / "a.md").rename(folder / "b.md")
            (folder / "bad.csv").write_bytes(b"a,text\n1,\xff\xfe\x00\n")
            (folder / "c.md").write_text("Gamma.")
            self.wait_for_change = super().wait_for_change  # type: ignore[method-assign]
            return True

    monkeypatch.setattr(watching, "make_watcher", lambda *_, **__: RenamingWatcher(True))
    assert run(["watch", "s", str(folder), "--embedder", "hashing", "--language", "rules"]) == 0
    output = capsys.readouterr().err
    assert output.count("1 added, 0 changed") == 1
    assert "1 removed" in output
    assert output.count("bad.csv") == 1, "a failure that stays is told once"
    assert output.endswith("stopped watching\n")
    with kvstore.open("s") as store:
        assert "c.md" in store
    assert run(["watch", "s", "nowhere"]) == 2


@pytest.mark.slow
def test_the_command_is_notified_by_the_system_and_ends_with_ctrl_c(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    words = ["watch", str(tmp_path / "s"), str(folder), "--embedder", "hashing", "--language", "rules"]
    command = [sys.executable, "-c", "from kvstore_shell.cli import main; main()", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as running:
        assert running.stderr is not None
        lines = iter(running.stderr.readline, "")
        assert "watching" in next(lines)
        assert "1 added" in next(lines)
        (folder / "a.md").rename(folder / "b.md")
        (folder / "c.md").write_text("Gamma.")
        assert "2 added, 0 changed, 0 unchanged, 1 removed" in next(lines)
        running.send_signal(signal.SIGINT)
        assert "stopped watching" in next(lines)
        assert running.wait() == 0
    with kvstore.open(tmp_path / "s") as store:
        assert store.keys() == ["b.md", "c.md"]
        assert store.statistics()["change"] == 2
        assert store.check() == []
