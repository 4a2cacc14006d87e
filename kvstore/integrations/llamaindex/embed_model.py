"""LlamaIndex's embedding as the embedder of a store."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding

from ..framework_embedder import FrameworkEmbedder, build_embedding_name


def make_embedder(embed_model: BaseEmbedding | str | None) -> FrameworkEmbedder | str | None:
    """Return a LlamaIndex embedding as the embedder of a store; return None and names of embedders unchanged."""
    if embed_model is None or isinstance(embed_model, str):
        return embed_model
    return FrameworkEmbedder(
        build_embedding_name("llamaindex", embed_model),
        embed_model.get_text_embedding_batch,
        embed_model.get_query_embedding,
    )
