"""A SQLAlchemy dialect, ``create_engine("kvstore:///path/of/store")``, also for libraries on top of it such as pandas.

In: the URL of a store, whose query accepts arguments of :func:`kvstore.dbapi.connect` (``readonly``, ``create``,
``embedder``, ``timeout``, ``durability``). Out: engines that use SQLite's SELECT and run every other statement of the
language as text. Tables and columns are reflected from DESCRIBE; they cannot be created.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..errors import InputError
from ..extensions.extras import import_extra

import_extra("sqlalchemy", "sqlalchemy", "the dialect of SQLAlchemy", package="SQLAlchemy")

from sqlalchemy import exc, types  # noqa: E402
from sqlalchemy.dialects.sqlite.base import SQLiteDialect  # noqa: E402

import kvstore  # noqa: E402

_TYPES = {"TEXT": types.TEXT, "INTEGER": types.INTEGER, "REAL": types.REAL, "BLOB": types.BLOB}
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _parse_flag(text: str) -> bool:
    """Parse a Boolean option, such as ``true``, ``1`` or ``yes``. Raises KeyError for any other text."""
    return _FLAGS[text.lower()]


#: The options in the query of a URL, with their parsers.
_OPTION_PARSERS: dict[str, Callable[[str], Any]] = {
    "readonly": _parse_flag,
    "create": _parse_flag,
    "embedder": str,
    "timeout": float,
    "durability": str,
}


class KvstoreDialect(SQLiteDialect):
    """SQLite's dialect for queries, with the connections, transactions and tables of a store."""

    name = "kvstore"
    driver = "dbapi"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    returns_native_bytes = True

    def __init__(self, dbapi: ModuleType | None = None, **options: Any) -> None:
        """Create a dialect with the :mod:`kvstore.dbapi` module."""
        super().__init__(**options)  # passing the module would query its SQLite version
        self.dbapi = dbapi

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module that implements the Python database API."""
        from .. import dbapi

        return dbapi

    def retrieve_dbapi_version(self, dbapi: ModuleType) -> tuple[int, ...]:
        """Return the version of kvstore, as numbers."""
        return tuple(int(number) for number in kvstore.__version__.split(".") if number.isdecimal())

    def create_connect_args(self, url: Any) -> tuple[list[str], dict[str, Any]]:
        """Return the arguments of :func:`kvstore.dbapi.connect` for a URL. Raises InputError for an invalid URL."""
        if not url.database or url.host:
            raise InputError("the URL of a store must be kvstore:///relative/path or kvstore:////absolute/path")
        return [url.database], {name: _parse_option(name, value) for name, value in url.query.items()}

    def on_connect(self) -> None:
        """Return None: a new connection needs no preparation."""
        return None

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        """Return the version of SQLite, as numbers."""
        return tuple(map(int, connection.exec_driver_sql("SELECT sqlite_version()").scalar().split(".")))

    # Transactions: a connection commits explicitly, or after each statement

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[str]:
        """Return the names of the supported isolation levels."""
        return ["SERIALIZABLE", "AUTOCOMMIT"]

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Turn autocommit on or off for a connection."""
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        """Return the isolation level of a connection."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SERIALIZABLE"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """True if a connection commits after each statement."""
        return bool(dbapi_conn.autocommit)

    # Reflection

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """Return the name of the only schema."""
        return ["main"]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the names of all tables that SELECT can read."""
        return [table.name for table in _get_session(connection).tables()]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """True if SELECT can read a table with this name."""
        return table_name.lower() in self.get_table_names(connection)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[dict[str, Any]]:
        """Return the columns of a table in the form that SQLAlchemy expects."""
        return [
            {
                "name": column.name,
                "type": _TYPES.get(column.type or "", types.NullType)(),
                "nullable": True,
                "default": None,
            }
            for column in _load_table(connection, table_name).columns
        ]

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, str]:
        """Return the description of a table as its comment."""
        return {"text": _load_table(connection, table_name).description}

    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return an empty dictionary, because tables have no options."""
        return {}

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return an empty constraint: no table declares a primary key."""
        return {"constrained_columns": [], "name": None}

    def _return_empty_list(self, connection: Any, *_: Any, **__: Any) -> list[Any]:
        """Return an empty list, for kinds of objects that a store does not have."""
        return []

    get_temp_table_names = get_view_names = get_temp_view_names = _return_empty_list
    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _return_empty_list


def _get_session(connection: Any) -> kvstore.Store:
    """Return the session on the store that a SQLAlchemy connection uses."""
    session: kvstore.Store = connection.connection.driver_connection.session
    return session


def _load_table(connection: Any, name: str) -> kvstore.Table:
    """Return the description of a table. Raises NoSuchTableError."""
    try:
        return _get_session(connection).describe_table(name)
    except InputError:
        raise exc.NoSuchTableError(name) from None


def _parse_option(name: str, value: Any) -> Any:
    """Convert the value of an option in the URL of a store, such as ``readonly=true``, to its Python type.

    Raises InputError for an unknown option or an invalid value.
    """
    parse = _OPTION_PARSERS.get(name)
    if parse is None or not isinstance(value, str):  # an option that the URL repeats is a tuple
        raise InputError(f"the URL of a store accepts the options {', '.join(_OPTION_PARSERS)}, each once, not {name}")
    try:
        return parse(value)
    except (KeyError, ValueError):
        expectation = "true or false" if parse is _parse_flag else "a number of seconds"
        raise InputError(f"{name} in the URL of a store must be {expectation}, not {value!r}") from None
