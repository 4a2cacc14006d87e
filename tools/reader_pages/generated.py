"""Pages that documentation generators, such as Sphinx, make from a small manual. The manual is in ``source.py``; each
chapter becomes a page.

    pip install docutils sphinx furo sphinx-rtd-theme mkdocs-material pdoc

In: a folder to work in. Out: pages, or the reason why a generator cannot run. Each generator runs in a process of its
own, with a given Python, so it can be installed in another environment than kvstore.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import source


@dataclass(frozen=True)
class Page:
    """A page, the generator that made it, and the words of its source."""

    generator: str
    name: str
    markup: bytes
    words: list[str]


class Unavailable(Exception):
    """Raised if a generator is not installed, or fails."""


def iter_pages(folder: Path, python: str = sys.executable) -> Iterator[tuple[str, list[Page] | Unavailable]]:
    """Yield the name of every generator with its pages, or with the error if it cannot run.

    Generators work in ``folder``, and run with the interpreter ``python``.
    """
    for name, build in GENERATORS.items():
        page_folder = folder / name
        page_folder.mkdir(parents=True)
        try:
            yield name, build(page_folder, python)
        except Unavailable as error:
            yield name, error


def _run_module(python: str, *arguments: str, folder: Path) -> None:
    """Run a Python module in ``folder``; raise Unavailable with the last line of its output if it fails."""
    process = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True)
    if process.returncode:
        raise Unavailable((process.stderr.strip() or process.stdout.strip() or "it failed").splitlines()[-1])


def _make_docutils_builder(writer: str) -> Callable[[Path, str], list[Page]]:
    """Return a function that builds the pages of the manual with a writer of docutils, such as ``html5``."""

    def build(folder: Path, python: str) -> list[Page]:
        """Write each chapter as reStructuredText, and convert it."""
        pages = []
        for chapter in source.MANUAL:
            contents = ".. contents::\n\n"
            heading, _, body = source.render_rst(chapter).partition("\n\n")
            (folder / f"{chapter.name}.rst").write_text(f"{heading}\n\n{contents}{body}")
            _run_module(
                python, "-m", "docutils", f"--writer={writer}", "--generator", "--date", "--source-link",
                f"{chapter.name}.rst", f"{chapter.name}.html", folder=folder,
            )  # fmt: skip
            markup = (folder / f"{chapter.name}.html").read_bytes()
            pages.append(Page(f"docutils {writer}", chapter.name, markup, source.list_words(chapter)))
        return pages

    return build


def _make_sphinx_builder(theme: str) -> Callable[[Path, str], list[Page]]:
    """Return a function that builds the pages of the manual with a theme of Sphinx."""

    def build(folder: Path, python: str) -> list[Page]:
        """Write a Sphinx project of all chapters, and build it."""
        names = "\n".join(f"   {chapter.name}" for chapter in source.MANUAL)
        (folder / "index.rst").write_text(
            f"The station\n===========\n\n.. toctree::\n   :caption: Chapters\n\n{names}\n"
        )
        (folder / "conf.py").write_text(
            f"project = 'Station'\nauthor = 'The keepers'\ncopyright = '2024, The keepers'\nhtml_theme = {theme!r}\n"
            "extensions = ['sphinx.ext.viewcode']\nhtml_context = {'display_github': True, 'github_user': 'a', "
            "'github_repo': 'b', 'github_version': 'main', 'conf_py_path': '/docs/'}\n"
        )
        for chapter in source.MANUAL:
            (folder / f"{chapter.name}.rst").write_text(source.render_rst(chapter))
        _run_module(python, "-m", "sphinx", "-q", "-b", "html", ".", "out", folder=folder)
        return [_read_page(f"sphinx {theme}", folder / "out", chapter) for chapter in source.MANUAL]

    return build


def _build_material_pages(folder: Path, python: str) -> list[Page]:
    """Build the pages of the manual with Material for MkDocs."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# The station\n\nA manual for keepers.\n")
    for chapter in source.MANUAL:
        (folder / "docs" / f"{chapter.name}.md").write_text(source.render_markdown(chapter))
    (folder / "mkdocs.yml").write_text(
        "site_name: Station\nsite_url: https://station.example/\nrepo_url: https://github.com/a/station\n"
        "edit_uri: edit/main/docs/\ncopyright: Copyright 2024 The keepers\nuse_directory_urls: false\n"
        "theme:\n  name: material\n  font: false\n"
        "  features: [navigation.footer, content.action.edit, navigation.top]\n"
        "markdown_extensions: [admonition, def_list, footnotes, tables, attr_list, {toc: {permalink: true}}, "
        "pymdownx.highlight, pymdownx.superfences]\n"
    )
    _run_module(python, "-m", "mkdocs", "build", "-q", "-d", "out", folder=folder)
    return [_read_page("mkdocs material", folder / "out", chapter) for chapter in source.MANUAL]


def _build_pdoc_pages(folder: Path, python: str) -> list[Page]:
    """Build the pages of a package with pdoc; the docstring of each module is a chapter of the manual."""
    package = folder / "station"
    package.mkdir()
    (package / "__init__.py").write_text('"""The station."""\n')
    class_code = '''
class Lamp:
    """A lamp with its tank."""

    def light(self, tower: str = "north") -> bool:
        """Light the lamp of a tower; true when it burns."""
        return bool(tower)
'''
    method_code = class_code[class_code.index("    def") :]
    for chapter in source.MANUAL:
        (package / f"{chapter.name}.py").write_text(f'"""\n{source.render_markdown(chapter)}"""\n{class_code}')
    _run_module(python, "-m", "pdoc", "-d", "markdown", "-o", "out", "station", folder=folder)
    pages = []
    for chapter in source.MANUAL:
        markup = (folder / "out" / "station" / f"{chapter.name}.html").read_bytes()
        module_code = (package / f"{chapter.name}.py").read_text()
        # The page shows the names and docstrings, then the source code of the module, of the class and of the method.
        page_words = source.list_words(chapter) + source.split_tokens(
            f"station.{chapter.name} {class_code} {module_code} {class_code} {method_code}"
        )
        pages.append(Page("pdoc", chapter.name, markup, page_words))
    return pages


def _read_page(generator: str, folder: Path, chapter: source.Chapter) -> Page:
    """Return the page that a generator wrote to ``folder`` for a chapter."""
    return Page(generator, chapter.name, (folder / f"{chapter.name}.html").read_bytes(), source.list_words(chapter))


GENERATORS: dict[str, Callable[[Path, str], list[Page]]] = {
    "docutils-html4": _make_docutils_builder("html4"),
    "docutils-html5": _make_docutils_builder("html5"),
    "sphinx-alabaster": _make_sphinx_builder("alabaster"),
    "sphinx-furo": _make_sphinx_builder("furo"),
    "sphinx-rtd": _make_sphinx_builder("sphinx_rtd_theme"),
    "mkdocs-material": _build_material_pages,
    "pdoc": _build_pdoc_pages,
}
