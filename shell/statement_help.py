"""The syntax of each statement, which ``.help`` prints.

In: the first words of a statement. Out: the lines of its syntax, as the pages below ``docs/language`` have them.
"""

from __future__ import annotations

#: The syntax of all statements, sorted by their words. Square brackets mark optional clauses.
SYNTAX_LINES = (
    "ALIAS 'name' FOR 'entity'",
    "ASK 'question' [clauses of RETRIEVE] [MODEL 'name'] [WORDS n]",
    "BACKUP TO 'path'",
    "BEGIN",
    "CHECK [REPAIR]",
    "COMMIT",
    "COMPACT",
    "COPY (statement) TO 'file.csv'",
    "CREATE INDEX kind [WITH (name = value, ...)]",
    "DELETE DOCUMENT 'key'",
    "DELETE EDGE 'child' UNDER 'parent' [IN TREE 'tree']",
    "DELETE FROM documents WHERE condition",
    "DESCRIBE table",
    "DESCRIBE DOCUMENT 'key'",
    "DESCRIBE ENTITY 'name'",
    "DESCRIBE STRATEGY name",
    "DESCRIBE kind 'key'",
    "DROP ALIAS 'name'",
    "DROP INDEX kind",
    "EXPAND ['entity'] [UP | DOWN | BOTH] [DEPTH n] [IN TREE 'tree'] [LIMIT n]",
    "EXPAND TOPICS [DEPTH n]",
    "EXPAND COMMUNITIES [DEPTH n]",
    "EXPLAIN [ANALYZE] statement",
    "EXPLAIN [ANALYZE] statement AS SVG",
    "EXPORT TO 'file.jsonl'",
    "EXPORT TO 'file.parquet' [TABLE name]",
    "EXTRACT kind [SHARE s | WITHIN n TOKENS] [BY chooser] [WHERE condition] [MODEL 'name']",
    "IMPORT FROM 'file.jsonl'",
    "INGEST 'path, glob or URL' [AS format] [WITH (name = value, ...)]",
    "INSERT DOCUMENT 'key' [AS format] [SOURCE 'source'] [TITLE 'title'] TEXT 'text' [META '{...}'] [WHOLE]",
    "INSERT EDGE 'child' UNDER 'parent' [IN TREE 'tree']",
    "LOOKUP 'entity' [, 'entity' ...] [LIMIT n]",
    "MERGE ENTITY 'name' INTO 'name'",
    "REFRESH [INDEX kind] [MODEL 'name'] [WITHIN n TOKENS]",
    "RETRIEVE {'question' | ('question', ...)} [USING strategy, ...] [DEPTH n] [TOP k] [AS SEGMENTS] [WITHIN n TOKENS] "
    "[WHERE condition] [WITH (name = value, ...)]",
    "ROLLBACK",
    "SEARCH 'text' [USING vector | lexical | hybrid] [WHERE condition] [TOP k]",
    "SELECT ...",
    "SET name = value",
    "SHOW TABLES | INDEXES | STRATEGIES | SETTINGS | STATS | SPENT",
    "UNMERGE ENTITY 'name'",
    "UPDATE DOCUMENT 'key' SET change [, change ...]      -- change: TEXT = '...', TITLE = '...' or META = '{...}'",
    "UPDATE documents SET column = expression [, column = expression ...] [WHERE condition]",
    "VALUES ...",
    "WITH ... SELECT ...",
)


def find_syntax(words: list[str]) -> list[str]:
    """Return the syntax of the statements that begin with these words, ignoring case; empty if none does.

    >>> find_syntax(["insert", "edge"]), find_syntax(["leave"])
    (["INSERT EDGE 'child' UNDER 'parent' [IN TREE 'tree']"], [])
    """
    first_words = [word.upper().rstrip(";") for word in words]
    return [line for line in SYNTAX_LINES if line.upper().split()[: len(first_words)] == first_words]
