"""``python -m kvstore``: the ``kvstore`` command."""

from __future__ import annotations

from kvstore_shell.cli import main

if __name__ == "__main__":
    main()
