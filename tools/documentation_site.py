"""MkDocs hooks of the documentation site, in addition to ``mkdocs.yml``.

In: the pages below ``docs/``, and pages stored next to what they describe (:data:`OUTSIDE_SOURCES`), all with links
that are valid in the repository. Out: pages with links that are valid in the site; a link to a file outside the site
becomes its text. The site also contains the sources of the pages, and ``llms.txt`` with links to these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Pages of the site whose text is stored outside ``docs/``, with the path of the text.
OUTSIDE_SOURCES = {
    "language.md": "kvstore/language/LANGUAGE.md",
    "format.md": "kvstore/storage/FORMAT.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changes.md": "CHANGELOG.md",
}
#: The factors of pages in the search of the site, by the beginning of their names: help comes before reference.
SEARCH_BOOSTS = {"faq": 4, "how-to/": 3, "recipes/": 3, "changes": 0.05, "format": 0.2, "python": 0.5, "contrib": 0.2}
_FENCED = re.compile(r"^(```.*?^```$\n?)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def find_page(path: str) -> str | None:
    """Return the site page of a file of the repository, or None if the site lacks it.

    Both paths are relative: the file's to the root of the repository, the page's to the root of the site.
    """
    pages_by_source = {source: page for page, source in OUTSIDE_SOURCES.items()}
    return pages_by_source.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)


def rewrite_links(text: str, source: str, page: str) -> str:
    """Return a text of the repository with its links rewritten for the site.

    ``source`` is the path of the text from the root of the repository, and ``page`` the path of its page from the root
    of the site.
    """

    def rewrite_link(match: re.Match[str]) -> str:
        """Return a link to the page of the site, or only its label if the site lacks the target."""
        picture, label, target = match.groups()
        path, separator, heading = target.partition("#")
        if not path or ":" in path:  # a heading of the same page, or a URL
            return match[0]
        # No link points outside the repository.
        target_page = find_page(os.path.normpath(PurePosixPath(source).parent / path))
        if target_page is None:
            return label
        return f"{picture}[{label}]({os.path.relpath(target_page, PurePosixPath(page).parent)}{separator}{heading})"

    return _apply_outside_code(text, lambda prose: _LINK.sub(rewrite_link, prose))


def _apply_outside_code(text: str, function: Callable[[str], str]) -> str:
    """Apply a function to the parts of a text outside fenced code blocks."""
    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else function(part) for part in parts)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are stored outside ``docs/``, a hook of MkDocs."""
    from mkdocs.structure.files import File

    for page, source in OUTSIDE_SOURCES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page for the site, and set its boost in the search; a hook of MkDocs."""
    name = page.file.src_uri
    boost = next((boost for prefix, boost in SEARCH_BOOSTS.items() if name.startswith(prefix)), 1)
    page.meta.setdefault("search", {"boost": boost})
    return rewrite_links(markdown, OUTSIDE_SOURCES.get(name, f"docs/{name}"), name)


def on_post_build(config: Any) -> None:
    """Copy the sources of the pages next to them, and ``llms.txt`` with links to these; a hook of MkDocs."""
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    source_by_page = {
        path.relative_to(docs).as_posix(): f"docs/{path.relative_to(docs).as_posix()}" for path in docs.rglob("*.md")
    }
    for page, source in {**source_by_page, **OUTSIDE_SOURCES, "llms.txt": "docs/llms.txt"}.items():
        (site / page).write_text(
            rewrite_links((ROOT / source).read_text(encoding="utf-8"), source, page), encoding="utf-8"
        )
