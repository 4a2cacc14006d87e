"""The sample: 34 files with 51 documents about an invented lighthouse and harbor authority, and questions about them.

Out: :func:`folder`, to be ingested as a folder; :func:`hierarchy`, child,parent pairs; :data:`QUESTIONS` with the key
of the document that answers each; and :data:`UPDATE`, a change after which a question has another answer. People,
places and machines occur in several documents, and some questions need two documents.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

#: (question, key of the document that contains the answer)
QUESTIONS: list[tuple[str, str]] = [
    ("Who is the principal keeper of Gannet Rock?", "lights/gannet-rock.md"),
    ("Who paid for the Widow's Beacon?", "lights/widows-beacon.md"),
    ("Which part of the siren broke during the Long Fog?", "incidents/long-fog.md"),
    ("After how many hours is the fuel filter of a Kestrel generator changed?", "equipment/kestrel-generator.md"),
    ("Which signal on the mast closes the port of Port Averill?", "harbours/port-averill.md"),
    ("Who was the father of the master of the tender Petrel?", "people/hanne-lund.md"),
    ("Where is the engineer buried who built the tower on Gannet Rock?", "people/josiah-wrexham.md"),
    ("How far had the Pellow Buoy dragged when the Orla Dawn went aground?", "incidents/orla-dawn.md"),
    ("Who is the duty officer of the night shift at Harbour House?", "harbours/harbour-house.html"),
    ("What swell at the landing is the limit for a relief of keepers?", "procedures/relief-of-keepers.html"),
    ("What ran out on day 50 on Gannet Rock?", "log-1963-02-27"),
    ("How far did the survey of 2024 find that Pellow Bank had moved?", "notice-2024-05"),
]

#: (key, sentence in its text, sentence that replaces it, question whose answer changes)
UPDATE: tuple[str, str, str, str] = (
    "lights/gannet-rock.md",
    "The principal keeper of Gannet Rock is Ewan Strand, who has held the post since April 2019.",
    "The principal keeper of Gannet Rock is Moira Keane, who has held the post since March 2025.",
    "Who is the principal keeper of Gannet Rock?",
)


def folder() -> Path:
    """Return the folder of documents: Markdown, HTML, a CSV of rows and a JSON Lines file."""
    return Path(str(files(__name__).joinpath("documents")))


def hierarchy() -> Path:
    """Return a CSV file of child,parent pairs of names in the documents, to be ingested ``AS pairs``."""
    return Path(str(files(__name__).joinpath("hierarchy.csv")))
