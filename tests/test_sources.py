"""Sources: which files paths, folders and patterns stand for, under which keys and formats."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest

import kvstore
from kvstore.errors import InputError, ReaderError
from kvstore.ingest.sources import check_source, find_sources

FILES = [
    "a.md",
    "b/c.txt",
    "b/d/e.HTML",
    "b/d/f.csv",
    "b/picture.png",
    "g.jsonl",
    "Makefile",
    ".hidden.md",
    ".git/h.md",
    "b/.i/j.md",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" if name == "Makefile" else b"x")
    return root


def list_keys(*paths: str | Path, format: str | None = None) -> list[str]:
    return [source.key for source in find_sources(paths, format)]


def test_a_folder_is_walked_in_order_and_hidden_files_are_passed_over(tree: Path) -> None:
    sources = find_sources([tree])
    keys_and_formats = [(source.key, source.format) for source in sources]
    assert keys_and_formats == [
        ("a.md", "markdown"),
        ("b/c.txt", "text"),
        ("b/d/e.HTML", "html"),
        ("b/d/f.csv", "csv"),
        ("g.jsonl", "jsonl"),
    ]
    assert len(sources) == 5
    assert sources.skipped == Counter({"suffix .png": 1, "no suffix": 1, "hidden": 3})
    assert [coverage.root for coverage in sources.coverages] == [str(tree)]
    assert all(source.root == str(tree) and source.path == str(tree / source.key) for source in sources)


def test_a_format_narrows_a_folder_and_decides_for_a_file(tree: Path) -> None:
    assert list_keys(tree, format="csv") == list_keys(tree, format="pairs") == ["b/d/f.csv"]
    assert find_sources([tree], "csv").skipped["suffix .md"] == 1
    (source,) = find_sources([tree / "Makefile"], "markdown")
    assert (source.key, source.format, source.root) == ("Makefile", "markdown", None)
    (source,) = find_sources([tree / "Makefile"])
    assert source.format is None
    assert find_sources([tree / "Makefile"]).coverages == ()
    with pytest.raises(InputError, match="did you mean html"):
        find_sources([tree], "htm")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", ["a.md"]),
        ("**/*.md", ["a.md"]),
        ("**/*.*", ["a.md", "b/c.txt", "b/d/e.HTML", "b/d/f.csv", "b/picture.png", "g.jsonl"]),
        ("b/**", ["c.txt", "d/e.HTML", "d/f.csv", "picture.png"]),
        ("b/?.txt", ["c.txt"]),
        ("b/*/f.csv", ["d/f.csv"]),
        ("?/*", ["b/c.txt", "b/picture.png"]),
        ("**/d/*.csv", ["b/d/f.csv"]),
        ("M*", ["Makefile"]),
    ],
)
def test_patterns_are_relative_to_their_fixed_prefix(
    tree: Path, pattern: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list_keys(tree / pattern) == expected
    monkeypatch.chdir(tree)
    assert list_keys(pattern) == expected


def test_a_file_that_is_called_like_a_pattern_is_meant_itself(tree: Path) -> None:
    for name in ("what?.md", "whats.md", "x[1].md"):
        (tree / name).write_text("x")
    assert list_keys(tree / "what?.md") == ["what?.md"]
    assert list_keys(tree / "x[*].md") == ["x[1].md"]


def test_several_paths_keep_their_order(tree: Path) -> None:
    assert list_keys(tree / "g.jsonl", tree / "b" / "d", tree / "a.md") == ["g.jsonl", "e.HTML", "f.csv", "a.md"]


@pytest.mark.parametrize("path", ["absent", "absent.md", "absent/*.md", "*.absent", "b/**/*.absent", "nul\0"])
def test_a_missing_path_is_named(tree: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    with pytest.raises(ReaderError) as caught:
        find_sources(["a.md", path])
    assert repr(path) in str(caught.value)
    with pytest.raises(ReaderError) as checked:
        check_source(path)
    assert str(checked.value) == str(caught.value)


def test_a_check_of_a_path_reads_no_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tree))
    (tree / "broken").symlink_to(tree / "absent")
    with mock.patch("os.listdir", side_effect=AssertionError), mock.patch("builtins.open", side_effect=AssertionError):
        for path in (tree, tree / "b", tree / "a.md", tree / "Makefile", "~", "~/b/c.txt"):
            check_source(str(path))
        for path, error in (("", InputError), (str(tree / "broken"), ReaderError)):
            with pytest.raises(error):
                check_source(path)
        with pytest.raises(InputError, match="htm"):
            check_source(str(tree), "htm")


def test_links_out_of_the_root_and_to_folders_are_not_followed(tree: Path) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("x")
    (tree / "out.md").symlink_to(outside / "secret.md")
    (tree / "outfolder").symlink_to(outside)
    (tree / "b" / "loop").symlink_to(tree)
    (tree / "inside.md").symlink_to(tree / "a.md")
    sources = find_sources([tree])
    assert [source.key for source in sources] == ["a.md", "b/c.txt", "b/d/e.HTML", "b/d/f.csv", "g.jsonl", "inside.md"]
    assert sources.skipped["links out of the folder"] == 1
    assert sources.skipped["links to folders"] == 2
    linked = tree.parent / "linked"
    linked.symlink_to(tree)
    assert list_keys(linked) == list_keys(tree)
    assert [coverage.root for coverage in find_sources([linked]).coverages] == [str(tree)]
    assert {source.root for source in find_sources([linked / "b" / ".." / "b" / "*.txt"])} == {str(tree / "b")}


def test_unreadable_files_do_not_stop_the_rest(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "dangling.md").symlink_to(tree / "nowhere.md")
    os.mkfifo(tree / "pipe.md")
    listdir = os.listdir

    def refuse_to_list(path: Path) -> list[str]:
        if Path(path).name == "d":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse_to_list)
    sources = find_sources([tree])
    assert [source.key for source in sources] == ["a.md", "b/c.txt", "g.jsonl"]
    assert sources.skipped["not a regular file"] == 1
    assert [(Path(failure.place).name, failure.reason) for failure in sources.failures] == [
        ("d", "cannot be listed: Permission denied"),
        ("dangling.md", "cannot be accessed: it is a broken link, or you have no permission"),
    ]
    for chosen in (find_sources([tree], include=["*.jsonl"]), find_sources([tree / "*.jsonl"])):
        assert [source.key for source in chosen] == ["g.jsonl"]
        assert [Path(failure.place).name for failure in chosen.failures if "link" in failure.reason] == []
    with pytest.raises(ReaderError, match="is a device or a broken link"):
        find_sources([tree / "pipe.md"])


def test_names_that_are_no_utf8_make_keys_that_are(tree: Path) -> None:
    try:
        (tree / os.fsdecode(b"caf\xe9.md")).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such names")
    assert "caf\\xe9.md" in list_keys(tree)


def test_an_empty_path_is_an_error(tree: Path) -> None:
    with pytest.raises(InputError, match="path is empty"):
        find_sources(["", tree])


def test_names_that_are_no_text_and_their_spelling_have_keys_of_their_own(tmp_path: Path) -> None:
    names = [
        b"bad\xff.txt",
        b"bad\\xff.txt",
        b"bad\\x5cxff.txt",
        b"bad\\\xff.txt",
        "caf\u00e9.txt".encode(),
        b"back\\slash.txt",
    ]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    sources = list(find_sources([tmp_path]))
    assert len({source.key for source in sources}) == len({source.location for source in sources}) == len(names)
    keys = {Path(source.path).read_bytes(): source.key for source in sources}
    assert keys[b"bad\xff.txt"] == "bad\\xff.txt"
    assert keys[b"bad\\xff.txt"] == "bad\\x5cxff.txt"
    assert keys[b"back\\slash.txt"] == "back\\slash.txt"
    assert all(source.location == f"{tmp_path}/{source.key}" for source in sources)


def test_patterns_include_files_whatever_their_suffixes(tree: Path) -> None:
    sources = find_sources([tree], "text", ["*.png", "b/*.txt", "Make*"])
    assert sorted(source.key for source in sources) == sorted(
        str(path.relative_to(tree))
        for path in tree.rglob("*")
        if path.is_file() and (path.suffix == ".png" or path.name == "Makefile" or path == tree / "b" / "c.txt")
    )
    assert {source.format for source in sources} == {"text"}
    assert sources.skipped["suffix .md"] == 1


def test_files_covered_by_a_folder_and_a_pattern(tree: Path) -> None:
    (folder,) = find_sources([tree]).coverages
    (pattern,) = find_sources([tree / "**" / "*.md"]).coverages
    assert [folder.covers(f"{tree}/{name}") for name in ("gone.md", "gone.png", "b/gone.txt")] == [
        True,
        False,
        True,
    ]
    assert [pattern.covers(f"{tree}/{name}") for name in ("gone.md", "b/gone.md", "b/gone.txt")] == [
        True,
        True,
        False,
    ]


def test_the_sources_of_pages_are_skipped_if_the_pages_exist(tmp_path: Path) -> None:
    for name in ("guide/start.html", "faq.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("<p>Text.</p>")
    for name in ("guide/start.rst.txt", "faq.md.txt", "lost.rst.txt"):
        (tmp_path / "_sources" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_sources" / name).write_text("Text.")
    sources = find_sources([tmp_path])
    assert [source.key for source in sources] == ["_sources/lost.rst.txt", "faq.html", "guide/start.html"]
    assert sources.skipped == Counter({"sources of pages": 2})
    assert len(find_sources([tmp_path / "_sources"])) == 3
    assert len(find_sources([tmp_path], include=["*.txt"])) == 3


def test_a_path_in_a_folder_without_permission_is_not_called_missing(tree: Path) -> None:
    with (
        mock.patch("pathlib.Path.stat", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(ReaderError, match=r"cannot be accessed \(Permission denied\); check the permissions"),
    ):
        find_sources([tree / "closed" / "notes"])


def test_a_store_in_a_folder_is_not_ingested(tree: Path) -> None:
    path = tree / "b" / "store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        for _ in range(2):  # the first ingest writes a log into the folder of the store
            report = store.ingest(str(tree), include=["*.md", "*.json*"], workers=0)
            assert report.skipped_by["stores"] == 1
        assert (path / "ingests.jsonl").exists()
        assert store.keys() == ["a.md"]
        assert len(find_sources([path])) == 0
        assert list_keys(f"{tree}/**/*.jsonl") == ["g.jsonl"]
