"""The scripts of others that the explorer serves: each is as it was published, under a licence that allows it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import kvstore

FOLDER = Path(str(kvstore.__file__)).parent / "integrations" / "explore" / "static" / "vendor"
ENTRIES = json.loads((FOLDER / "vendored.json").read_text(encoding="utf-8"))


def test_every_file_is_the_one_that_was_taken() -> None:
    listed = {"vendored.json"}
    for entry in ENTRIES:
        for file, digest in (("file", "sha256"), ("licence_file", "licence_sha256")):
            assert hashlib.sha256((FOLDER / entry[file]).read_bytes()).hexdigest() == entry[digest], entry[file]
            listed.add(entry[file])
        assert entry["integrity"].startswith("sha512-")
        assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert {path.name for path in FOLDER.iterdir()} == listed


def test_every_script_may_be_redistributed() -> None:
    words = {"MIT": "Permission is hereby granted, free of charge", "0BSD": "Zero-Clause BSD"}
    for entry in ENTRIES:
        assert words[entry["licence"]] in (FOLDER / entry["licence_file"]).read_text(encoding="utf-8")


def test_the_bill_of_materials_has_every_script() -> None:
    bill = json.loads(Path(__file__).parents[1].joinpath("kvstore.cdx.json").read_text(encoding="utf-8"))
    parts = {(part["name"], part.get("version")): part for part in bill["components"]}
    for entry in ENTRIES:
        part = parts[entry["name"], entry["version"]]
        assert part["licenses"] == [{"license": {"id": entry["licence"]}}]
        assert part["hashes"] == [{"alg": "SHA-256", "content": entry["sha256"]}]
