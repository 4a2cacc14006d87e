"""Answers that a model has given before, each under the digest of all that it depends on.

In: the prompt (but for the mark that was drawn for it) and the model, whole. On disk: one file an answer under
``$XDG_CACHE_HOME/kvstore/answers``, readable by its owner only; see FORMAT.md. Out: the same answer as long as nothing
changed: not a document that the prompt quotes, the question, the model or its address. The files can be thrown away.
Several processes may share them: a file comes into being whole. A file that is damaged, and a folder that cannot be
written, count as no answer.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import CorruptionError
from ..models.llm import ModelAnswer
from ..storage import records

#: Answers kept, and for how many seconds at most.
MAX_ANSWERS = 1000
MAX_AGE_SECONDS = 30 * 86_400


class AnswerCache:
    """The answers in one folder (default: that of the user)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or _get_user_folder()

    def find(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]]) -> ModelAnswer | None:
        """The answer to this prompt by this model, or None."""
        path = self._build_path(identity, messages)
        try:
            if time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                return None
            text, reasoning, cut = records.unpack(path.read_bytes(), "answers", path.name.encode())
            return ModelAnswer(str(text), str(reasoning), bool(cut))
        except (OSError, CorruptionError, TypeError, ValueError):
            return None

    def store(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]], response: ModelAnswer) -> None:
        """Keep an answer, in place of the oldest where there are too many."""
        path = self._build_path(identity, messages)
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder)  # readable by its owner only
            with open(handle, "wb") as file:
                file.write(records.pack([response.text, response.reasoning, response.is_truncated]))
            os.replace(name, path)
            self._drop_old()

    def _drop_old(self) -> None:
        """Delete what is too old, and the oldest of too many; other processes may do the same."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                files.append((path.stat().st_mtime, path))
        files.sort(reverse=True)
        limit = time.time() - MAX_AGE_SECONDS
        for index, (changed, path) in enumerate(files):
            if index >= MAX_ANSWERS or changed < limit:
                path.unlink(missing_ok=True)

    def _build_path(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]]) -> Path:
        parts = [list(identity), [[message["role"], message["content"]] for message in messages]]
        return self._folder / hashlib.blake2b(records.pack(parts), digest_size=32).hexdigest()


def _get_user_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "kvstore" / "answers"
