"""The query language: text to statements, statements to rows. What users type is described in ``LANGUAGE.md``."""
