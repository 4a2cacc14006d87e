"""The name of the language model to use, found without loading the code that calls one.

In: a name that the caller passes, the settings of a session, and the environment. Out: the name, or None.
"""

from __future__ import annotations

import os

from ..settings import SessionSettings

MODEL_VARIABLE = "KVSTORE_LLM_MODEL"
#: The name for no model, in the environment or the session.
NO_MODEL = "none"


def find_model_name(name: str | None, session: SessionSettings) -> str | None:
    """Return ``name``, or else the model of the session or the environment; None if it is ``none`` or missing."""
    model_name = name or session.model or os.environ.get(MODEL_VARIABLE, "").strip() or NO_MODEL
    return None if model_name.lower() == NO_MODEL else model_name
