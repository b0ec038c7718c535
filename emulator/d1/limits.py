"""The limits and refusals of D1, as workerd's own SQLite sets them. Knows no table."""

from dataclasses import replace

from host.sqlite import Confinement, Limits

LIMITS = Limits(
    parameters=100,
    statement_bytes=100_000,
    columns=100,
    expression_depth=100,
    compound_terms=5,
    function_arguments=127,
    like_pattern_bytes=50,
    value_bytes=4 * 1024 * 1024,
)
"""SQLite counts a whole row against `value_bytes` as well, in workerd as here."""

CONFINEMENT = Confinement(
    limits=LIMITS,
    pragmas_of_objects=frozenset(
        {
            "foreign_key_check",
            "foreign_key_list",
            "index_info",
            "index_list",
            "index_xinfo",
            "quick_check",
            "table_info",
            "table_list",
            "table_xinfo",
        }
    ),
    pragmas_that_tell=frozenset(
        {
            "case_sensitive_like",
            "data_version",
            "defer_foreign_keys",
            "foreign_keys",
            "ignore_check_constraints",
            "legacy_alter_table",
            "recursive_triggers",
            "reverse_unordered_selects",
        }
    ),
)
"""No PRAGMA sets anything: many callers share one connection and one commit."""


def with_values_up_to(value_bytes: int) -> Confinement:
    """The same with another limit of one value and of one row."""
    return replace(CONFINEMENT, limits=replace(LIMITS, value_bytes=value_bytes))
