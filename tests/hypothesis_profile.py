"""Numbers of examples for property tests, and their choice: ``KVSTORE_TEST_PROFILE`` is fast, thorough or random.

``fast`` (``make test``) runs few examples, and ``thorough`` (``make test-slow``) many. Both run the same examples every
time, so that a change is blamed only for what it breaks. ``random`` (``make test-random``) runs as many as
``thorough``, with new examples every time, to search for faults that nobody knows yet.
"""

from __future__ import annotations

import os

import hypothesis
from hypothesis.internal.conjecture import providers

_PROFILE = os.environ.get("KVSTORE_TEST_PROFILE", "fast")
IS_THOROUGH = _PROFILE != "fast"
_MAX_FAST_EXAMPLES = 10


def load_profile() -> None:
    """Load the profile that the environment names; no example has a deadline, since other processes delay it."""
    hypothesis.settings.register_profile("fast", deadline=None, max_examples=_MAX_FAST_EXAMPLES, derandomize=True)
    hypothesis.settings.register_profile("thorough", deadline=None, derandomize=True)
    hypothesis.settings.register_profile("random", deadline=None)
    hypothesis.settings.load_profile(_PROFILE)
    if _PROFILE != "random" and hasattr(providers, "_local_constants"):
        # Hypothesis also draws constants of the modules loaded so far, which depend on the order of the tests.
        providers._get_local_constants = lambda: providers._local_constants


def num_examples(thorough: int) -> int:
    """Return the number of examples of a test that runs ``thorough`` of them outside the profile ``fast``."""
    return thorough if IS_THOROUGH else min(thorough, _MAX_FAST_EXAMPLES)
