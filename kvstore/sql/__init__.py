"""SELECT and conditions: the tables that a query reads, as virtual SQLite tables."""
