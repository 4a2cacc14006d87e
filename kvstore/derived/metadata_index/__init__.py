"""Bitmap indexes over the metadata and columns of documents, for conditions."""
