"""Numbers of examples for property tests: few and always the same in ``make test``, many in ``make test-slow``.

``KVSTORE_TEST_PROFILE=thorough`` selects the second; the default is ``fast``.
"""

from __future__ import annotations

import os

import hypothesis

IS_THOROUGH = os.environ.get("KVSTORE_TEST_PROFILE", "fast") == "thorough"
_MAX_FAST_EXAMPLES = 10


def load_profile() -> None:
    """Load the profile that the environment names; no example has a deadline, since other processes delay it."""
    hypothesis.settings.register_profile("fast", deadline=None, max_examples=_MAX_FAST_EXAMPLES, derandomize=True)
    hypothesis.settings.register_profile("thorough", deadline=None)
    hypothesis.settings.load_profile("thorough" if IS_THOROUGH else "fast")


def num_examples(thorough: int) -> int:
    """Return the number of examples of a test that runs ``thorough`` of them in the thorough profile."""
    return thorough if IS_THOROUGH else min(thorough, _MAX_FAST_EXAMPLES)
