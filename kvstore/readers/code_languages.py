"""Languages whose files are split at definitions: their suffixes, and their grammars and nodes, or line patterns.

This module contains only data, so looking up a suffix loads no grammar.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its ``name`` in code fences, the package and function of its grammar, and the grammar's nodes.

    ``definitions`` are nodes that define a name. ``wrappers`` are nodes that only enclose a definition (decorators,
    exports, templates). Nested definitions are searched in ``bodies``. A language without a ``package`` is split at
    lines that match ``definition_pattern``, ignoring case; its group ``name`` is the defined name. Without a pattern,
    the file is not split. ``comment`` is the prefix of comment lines.
    """

    name: str
    package: str
    definitions: frozenset[str]
    wrappers: frozenset[str] = frozenset()
    bodies: frozenset[str] = frozenset()
    function: str = "language"
    definition_pattern: str = ""
    comment: str = "#"


def _make_line_language(name: str, definition_pattern: str = "", comment: str = "#") -> Language:
    """Return a language without a grammar, whose files are split at lines that match ``definition_pattern``.

    Without a pattern, they are not split. ``comment`` is the beginning of its comments.
    """
    return Language(name, package="", definitions=frozenset(), definition_pattern=definition_pattern, comment=comment)


def _make_language(
    name: str, definitions: str, wrappers: str = "", bodies: str = "", package: str = "", function: str = "language"
) -> Language:
    """Return a language with a tree-sitter grammar.

    ``definitions``, ``wrappers`` and ``bodies`` are node types, separated by spaces: definitions, nodes that only
    enclose a definition (a decorator), and nodes that are searched for nested definitions. The grammar is in the
    package ``tree_sitter_`` and ``package`` (default: ``name``), and its function ``function`` returns it.
    """
    return Language(
        name,
        f"tree_sitter_{package or name}",
        definitions=frozenset(definitions.split()),
        wrappers=frozenset(wrappers.split()),
        bodies=frozenset(bodies.split()),
        function=function,
    )


_PYTHON = _make_language("python", "function_definition class_definition", "decorated_definition", "block")
_SCRIPT_DEFINITIONS = (
    "function_declaration generator_function_declaration class_declaration abstract_class_declaration "
    "method_definition interface_declaration type_alias_declaration enum_declaration internal_module "
    "function_signature abstract_method_signature"
)
_SCRIPT_WRAPPERS = "export_statement expression_statement ambient_declaration"
_SCRIPT_BODIES = "class_body statement_block"
_JAVASCRIPT = _make_language("javascript", _SCRIPT_DEFINITIONS, _SCRIPT_WRAPPERS, _SCRIPT_BODIES)
_TYPESCRIPT = _make_language(
    "typescript", _SCRIPT_DEFINITIONS, _SCRIPT_WRAPPERS, _SCRIPT_BODIES, "typescript", "language_typescript"
)
_TSX = _make_language("tsx", _SCRIPT_DEFINITIONS, _SCRIPT_WRAPPERS, _SCRIPT_BODIES, "typescript", "language_tsx")
_JAVA = _make_language(
    "java",
    "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration "
    "method_declaration constructor_declaration",
    "",
    "class_body interface_body enum_body enum_body_declarations annotation_type_body",
)
_C = _make_language(
    "c",
    "function_definition struct_specifier union_specifier enum_specifier type_definition preproc_function_def",
    "declaration linkage_specification",
    "declaration_list preproc_ifdef preproc_if preproc_else",
)
_CPP = _make_language(
    "cpp",
    "function_definition struct_specifier union_specifier enum_specifier class_specifier namespace_definition "
    "concept_definition alias_declaration type_definition preproc_function_def",
    "template_declaration declaration linkage_specification",
    "field_declaration_list declaration_list preproc_ifdef preproc_if preproc_else",
)
_CSHARP = _make_language(
    "csharp",
    "namespace_declaration class_declaration struct_declaration interface_declaration record_declaration "
    "enum_declaration delegate_declaration method_declaration constructor_declaration property_declaration",
    "",
    "declaration_list file_scoped_namespace_declaration",
    "c_sharp",
)
_GO = _make_language("go", "function_declaration method_declaration type_spec type_alias", "type_declaration")
_RUST = _make_language(
    "rust",
    "function_item struct_item enum_item union_item trait_item impl_item mod_item macro_definition type_item "
    "function_signature_item",
    "",
    "declaration_list",
)
_RUBY = _make_language("ruby", "class module method singleton_method", "", "body_statement")
_PHP = _make_language(
    "php",
    "function_definition class_declaration interface_declaration trait_declaration enum_declaration "
    "method_declaration namespace_definition",
    "",
    "declaration_list compound_statement enum_declaration_list",
    "php",
    "language_php",
)
_KOTLIN = _make_language(
    "kotlin",
    "class_declaration object_declaration function_declaration companion_object type_alias",
    "",
    "class_body enum_class_body",
)

_SHELL = _make_line_language("sh", r"^(?:function[ \t]+)?(?P<name>[a-z_][\w:.-]{0,99})[ \t]*\(\)")
_SQL = _make_line_language(
    "sql",
    r"^CREATE[ \t]+(?:OR[ \t]+REPLACE[ \t]+)?(?:\w+[ \t]+){0,2}?"
    r"(?:TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER|TYPE|SCHEMA)[ \t]+"
    r"(?:IF[ \t]+NOT[ \t]+EXISTS[ \t]+)?(?P<name>[\w.\"`\[\]]{1,200})",
    "--",
)
_SECTION_PATTERN = r"^\[{1,2}[ \t]*(?P<name>[^\[\]\n]{1,200}?)[ \t]*\]{1,2}[ \t]*(?:[#;].*)?$"
_INI = _make_line_language("ini", _SECTION_PATTERN)
_TOML = _make_line_language("toml", _SECTION_PATTERN)
_YAML = _make_line_language("yaml")

#: Languages by suffix. A header can be C or C++; the grammar of C++ reads both.
LANGUAGES = {
    ".py": _PYTHON,
    ".pyi": _PYTHON,
    ".js": _JAVASCRIPT,
    ".mjs": _JAVASCRIPT,
    ".cjs": _JAVASCRIPT,
    ".jsx": _JAVASCRIPT,
    ".ts": _TYPESCRIPT,
    ".mts": _TYPESCRIPT,
    ".tsx": _TSX,
    ".java": _JAVA,
    ".c": _C,
    ".h": _CPP,
    ".cc": _CPP,
    ".cpp": _CPP,
    ".cxx": _CPP,
    ".hh": _CPP,
    ".hpp": _CPP,
    ".cs": _CSHARP,
    ".go": _GO,
    ".rs": _RUST,
    ".rb": _RUBY,
    ".php": _PHP,
    ".kt": _KOTLIN,
    ".kts": _KOTLIN,
    ".sh": _SHELL,
    ".bash": _SHELL,
    ".zsh": _SHELL,
    ".sql": _SQL,
    ".ini": _INI,
    ".cfg": _INI,
    ".conf": _INI,
    ".properties": _INI,
    ".toml": _TOML,
    ".yaml": _YAML,
    ".yml": _YAML,
    ".swift": _make_line_language("swift"),
    ".scala": _make_line_language("scala"),
    ".dart": _make_line_language("dart"),
    ".lua": _make_line_language("lua"),
    ".pl": _make_line_language("perl"),
    ".pm": _make_line_language("perl"),
    ".r": _make_line_language("r"),
    ".ps1": _make_line_language("powershell"),
    ".bat": _make_line_language("batch"),
    ".tf": _make_line_language("terraform"),
    ".proto": _make_line_language("protobuf"),
    ".graphql": _make_line_language("graphql"),
}
