"""Conversion between LlamaIndex's nodes and documents of a store. A node is stored as a document with one chunk; a hit
in any other document becomes a new node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ... import Document, Hit, Snapshot
from ..blank_texts import get_text_field
from ..hit_metadata import build_hit_metadata, load_hit_documents

#: The fields that a document's metadata has in addition to those of its node.
CONTENT, KIND, SOURCE = "_node_content", "_node_type", "ref_doc_id"
#: The metadata fields that are not shown to models.
_HIDDEN_FIELDS = ["evidence"]


def to_put_arguments(node: BaseNode) -> dict[str, Any]:
    """Convert a node to the arguments of ``put``.

    ``meta`` has its metadata and, as JSON, its other fields, from which the node can be restored.
    """
    return {
        "key": node.node_id,
        "text": node.get_content(metadata_mode=MetadataMode.NONE),
        "meta": node_to_metadata_dict(node, remove_text=True, flat_metadata=False),
        "source": get_text_field(node.metadata, "file_path"),
        "chunks": "whole",
        "vectors": None if node.embedding is None else [node.embedding],
    }


def build_node(document: Document) -> BaseNode:
    """Return the node stored in a document, or a new node with the document's text."""
    if CONTENT in document.meta:
        return metadata_dict_to_node(document.meta, text=document.text)
    return TextNode(id_=document.key, text=document.text, metadata=dict(document.meta))


def load_nodes(state: Snapshot, keys: Sequence[str]) -> list[BaseNode]:
    """Return the nodes of the documents with these keys, in order. Missing documents are omitted.

    The node of a document with one chunk has its vector, of length 1.
    """
    documents = [document for document in state.get_many(keys) if document is not None]
    nodes = [build_node(document) for document in documents]
    nodes_with_vectors = [
        (node, document.key) for node, document in zip(nodes, documents, strict=True) if document.chunks == 1
    ]
    vectors = state.vectors([(key, 0) for _, key in nodes_with_vectors])
    for (node, _), vector in zip(nodes_with_vectors, vectors, strict=True):
        node.embedding = vector.tolist()
    return nodes


def build_hit_nodes(state: Snapshot, hits: Sequence[Hit], *, evidence: bool) -> list[BaseNode]:
    """Return hits as nodes; with ``evidence`` the metadata includes their paths and offsets."""
    return [_build_hit_node(hit, document, evidence) for hit, document in load_hit_documents(state, hits)]


def _build_hit_node(hit: Hit, document: Document, evidence: bool) -> BaseNode:
    """Return the node of a hit: the stored node if the document is one chunk, else a new node for the hit's text.

    With ``evidence``, the metadata has the location of the hit, in a field that models do not get.
    """
    if hit.kind == "chunk" and document.chunks == 1:
        node = build_node(document)
    else:
        # A part of a document is a separate node with the byte offsets in its id.
        metadata = {name: value for name, value in document.meta.items() if name not in (CONTENT, KIND)}
        node = TextNode(id_=f"{hit.document}#{hit.start}-{hit.end}", text=hit.text, metadata=metadata)
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=hit.document)
    if evidence:
        node.metadata["evidence"] = build_hit_metadata(hit)
        node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, *_HIDDEN_FIELDS]
        node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, *_HIDDEN_FIELDS]
    return node
