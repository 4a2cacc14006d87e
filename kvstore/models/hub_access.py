"""Access to the model hub (Hugging Face), from which models are loaded by name.

In: the name or folder of a model. Out: True if the model must be loaded without the hub. If the network is down, the
library of the hub repeats each request for minutes, so kvstore first tests the hub with one request of a few seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The maximum number of seconds to connect to the hub, and to wait for its reply.
_TIMEOUT_SECONDS = 5


def must_load_locally(model: str) -> bool:
    """True if a model must be loaded without the hub: it is a folder, or the hub cannot be reached."""
    return Path(model).is_dir() or not _is_hub_reachable()


def explain_missing_model(model: str) -> str:
    """Return the reason why a model is missing: its name is not a folder, and the hub cannot be reached.

    For a folder, return an empty string.
    """
    if Path(model).is_dir():
        return ""
    return (
        f"the model hub ({_get_hub_address()}) cannot be reached, and {model!r} is neither a folder nor a model in its "
        "cache; check the name and the network connection"
    )


def _get_hub_address() -> str:
    """Return the address of the hub."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _is_hub_reachable() -> bool:
    """True if the hub replies to a request, even with an error.

    With ``HF_HUB_OFFLINE``, the hub's library rejects every request, so this is False.
    """
    from huggingface_hub import get_session

    session: Any = get_session()
    try:
        session.head(_get_hub_address(), timeout=_TIMEOUT_SECONDS)
    except Exception:  # the errors of the HTTP library that this version of the hub's library uses
        return False
    return True
