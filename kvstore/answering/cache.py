"""A cache of model answers, each stored under a digest of everything it depends on.

In: the model and the complete prompt. On disk: one file per answer under
``$XDG_CACHE_HOME/kvstore/answers``, readable by its owner only; see FORMAT.md. Out: the same answer, as long as the
quoted documents, the question, the model and its address are unchanged. The files can be deleted at any time. Several
processes can share them, because each file is written atomically. A damaged file or an unwritable folder counts as a
cache miss.
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

#: The maximum number of cached answers, and their maximum age in seconds.
MAX_ANSWERS = 1000
MAX_AGE_SECONDS = 30 * 86_400


class AnswerCache:
    """The cached answers in one folder (default: the user's cache folder)."""

    def __init__(self, folder: Path | None = None) -> None:
        """Create a cache that stores its answers in ``folder`` (None: a folder in the user's cache directory)."""
        self._folder = folder or _get_default_folder()

    def find(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]]) -> ModelAnswer | None:
        """Return the cached answer from a model to the ``messages`` of a prompt; None if missing, expired or damaged.

        ``identity`` has the address, the name and the parameters of the model.
        """
        path = self._build_path(identity, messages)
        try:
            if time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                return None
            text, reasoning, is_truncated = records.unpack(path.read_bytes(), "answers", path.name.encode())
            return ModelAnswer(str(text), str(reasoning), bool(is_truncated))
        except (OSError, CorruptionError, TypeError, ValueError):
            return None

    def store(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]], response: ModelAnswer) -> None:
        """Store the answer from a model (address, name and parameters: ``identity``) to the ``messages`` of a prompt.

        Expired answers and the oldest ones beyond ``MAX_ANSWERS`` are deleted. Errors of the file system are ignored.
        """
        path = self._build_path(identity, messages)
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder)  # created with mode 0600
            with open(descriptor, "wb") as file:
                file.write(records.pack([response.text, response.reasoning, response.is_truncated]))
            os.replace(name, path)
            self._delete_old()

    def _delete_old(self) -> None:
        """Delete expired answers, and the oldest ones beyond ``MAX_ANSWERS``. Other processes can do the same."""
        files = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                files.append((path.stat().st_mtime, path))
        files.sort(reverse=True)
        oldest_time = time.time() - MAX_AGE_SECONDS
        for index, (modified_time, path) in enumerate(files):
            if index >= MAX_ANSWERS or modified_time < oldest_time:
                path.unlink(missing_ok=True)

    def _build_path(self, identity: Sequence[str], messages: Sequence[Mapping[str, str]]) -> Path:
        """Return the path of a model's answer to a prompt, named by the digest of both."""
        parts = [list(identity), [[message["role"], message["content"]] for message in messages]]
        return self._folder / hashlib.blake2b(records.pack(parts), digest_size=32).hexdigest()


def _get_default_folder() -> Path:
    """Return the folder of cached answers in the user's cache directory."""
    cache_home = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache_home) if cache_home and os.path.isabs(cache_home) else Path.home() / ".cache"
    return base / "kvstore" / "answers"
