"""bm25s: BM25 scores precomputed as a sparse matrix, which is rebuilt when a document changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .peer import Peer, Results
from .plain_files import read_documents, write_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .corpus import Batch


class Bm25s(Peer):
    """A BM25 index with English stop words and stems, as in the first example of bm25s."""

    name = "bm25s"
    needs = ("bm25s", "Stemmer")
    setup = "method lucene, English stop words, PyStemmer; index read whole"

    def load(self, batches: Iterable[Batch]) -> None:
        """Create the store in :attr:`folder` with all documents of the batches, and its indexes."""
        import bm25s
        import Stemmer

        write_documents(self.folder, batches)
        texts = [f"{document.title}\n\n{document.text}" for document in read_documents(self.folder)]
        tokens = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
        retriever = bm25s.BM25()
        retriever.index(tokens, show_progress=False)
        retriever.save(f"{self.folder}/index")

    def open(self) -> None:
        """Open the store that :meth:`load` created."""
        import bm25s
        import Stemmer

        self.bm25s, self.stemmer = bm25s, Stemmer.Stemmer("english")
        self.documents = read_documents(self.folder)
        self.retriever = bm25s.BM25.load(f"{self.folder}/index")

    def search_by_words(self, question: str, top: int) -> Results:
        """Return (key, text) of the ``top`` documents for a question by BM25, best first."""
        tokens = self.bm25s.tokenize(question, stopwords="en", stemmer=self.stemmer, show_progress=False)
        indexes, _ = self.retriever.retrieve(tokens, k=top, show_progress=False)
        documents = [self.documents[index] for index in indexes[0].tolist()]
        return [(document.key, document.text) for document in documents]
