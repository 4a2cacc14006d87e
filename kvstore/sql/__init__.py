"""SELECT and conditions: the tables that a query sees, as virtual tables of SQLite."""
