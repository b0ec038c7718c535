"""The texts of every statement of the run store, for one table prefix. Each write carries its own condition (RS-70).

Parameters are `:name`. Holds no value and runs nothing.
"""

import re
from functools import lru_cache

from emulator.runstore import readings
from emulator.runstore.errors import MalformedRunInputError
from emulator.runstore.readings import has, readable
from emulator.runstore.rows import COLUMNS
from emulator.runstore.schema import AT_ADDRESS, SETTLED

_PREFIX = re.compile(r"[A-Za-z0-9_]{0,64}")
_IS_EXPECTED = f"""
    {AT_ADDRESS} AND resource_id IS :resource_id AND snapshot = :expected_snapshot
    AND created_at = :created_at AND updated_at = :expected_updated_at
"""


class Queries:
    """Attributes are SQL texts."""

    def __init__(self, prefix: str) -> None:
        if _PREFIX.fullmatch(prefix) is None:
            raise MalformedRunInputError("a table prefix has up to 64 letters, digits and underscores")
        self.runs = f"{prefix}runs"
        self.reservations = f"{prefix}run_reservations"
        lifecycle = "CASE WHEN json_valid(snapshot) THEN snapshot -> '$.lifecycle' END AS lifecycle_text"
        self.read = f"SELECT {COLUMNS}, {lifecycle} FROM {self.runs} WHERE {AT_ADDRESS}"
        self.purge = f"DELETE FROM {self.runs} WHERE {AT_ADDRESS}"
        self._name_touches()
        self._name_replacements()
        self._name_patches()
        self._name_admissions()
        self._name_persists()

    def _name_touches(self) -> None:
        self.touch = f"UPDATE {self.runs} SET updated_at = :updated_at WHERE {AT_ADDRESS} AND {SETTLED} = 0"
        self.touch_unparsed = f"""
            UPDATE {self.runs} SET updated_at = :updated_at
            WHERE {AT_ADDRESS} AND snapshot = :expected_snapshot AND NOT json_valid(snapshot)
        """
        self.unparsed = f"""
            SELECT CASE WHEN json_valid(snapshot) THEN NULL ELSE snapshot END AS unparsed
            FROM {self.runs} WHERE {AT_ADDRESS}
        """

    def _name_replacements(self) -> None:
        self.swap = f"""
            UPDATE {self.runs} SET snapshot = :snapshot, updated_at = :updated_at WHERE {_IS_EXPECTED}
        """
        self.replace = f"{self.swap} AND json_valid(:snapshot)"
        self.replace_unparsed = f"{self.swap} AND NOT json_valid(snapshot)"
        self.parses = f"""
            SELECT json_valid(:snapshot) AS is_storable,
                (SELECT json_valid(snapshot) FROM {self.runs} WHERE {AT_ADDRESS}) AS is_parsed
        """

    def _name_patches(self) -> None:
        unless_given = "(:lifecycle_revision IS NULL AND NOT " + has("snapshot", "lifecycle") + ")"
        condition = f"""
            json_type(snapshot, '$.status') = 'text' AND snapshot ->> '$.status' = :status
            AND ({readings.revision("snapshot")} = :lifecycle_revision OR {unless_given})
            AND (:expected_lifecycle IS NULL OR (snapshot -> '$.lifecycle') = json(:expected_lifecycle))
            AND NOT {readings.is_settled("snapshot")} AND NOT {readings.is_disputed("snapshot")}
        """
        self.patch = f"""
            UPDATE {self.runs}
            SET snapshot = json_set(snapshot, '$.lifecycle', json(:lifecycle), '$.timestamp', json(:timestamp)),
                updated_at = :updated_at
            WHERE {AT_ADDRESS} AND {readable("snapshot", condition)}
        """

    def _name_admissions(self) -> None:
        absent = f"NOT EXISTS (SELECT 1 FROM {self.runs} WHERE {AT_ADDRESS})"
        held = f"""
            EXISTS (SELECT 1 FROM {self.reservations} WHERE reservation_key = :reservation_key
                AND token = :token AND {AT_ADDRESS})
        """
        self.reserve = f"""
            INSERT INTO {self.reservations} (reservation_key, token, workflow_id, run_id, reserved_at)
            SELECT :reservation_key, :token, :workflow_id, :run_id, :created_at
            WHERE {absent} AND json_valid(:snapshot)
            ON CONFLICT (reservation_key) DO NOTHING
        """
        self.insert_absent = f"""
            INSERT INTO {self.runs} ({COLUMNS})
            SELECT :workflow_id, :run_id, :resource_id, :snapshot, :created_at, :updated_at
            WHERE {absent} AND json_valid(:snapshot)
        """
        self.admit = f"{self.insert_absent} AND (:reservation_key IS NULL OR {held})"
        self.holds = f"SELECT {held} AS is_held"

    def _name_persists(self) -> None:
        stored, new = f"{self.runs}.snapshot", "excluded.snapshot"
        passes = f"""
            NOT {readings.is_settled(stored)} OR (
                {readings.revision(new)} > {readings.revision(stored)} AND {readings.has_same_identity(stored, new)})
        """
        intent = "$.lifecycle.transitionIntent"
        self.persist = f"""
            INSERT INTO {self.runs} ({COLUMNS})
            SELECT :workflow_id, :run_id, :resource_id, :snapshot, :created_at, :updated_at
            WHERE json_valid(:snapshot)
                AND (:may_insert OR EXISTS (SELECT 1 FROM {self.runs} WHERE {AT_ADDRESS}))
            ON CONFLICT (workflow_id, run_id) DO UPDATE SET
                snapshot = CASE
                    WHEN {readings.is_settled(stored)} THEN {new}
                    WHEN {readings.keeps_lifecycle(stored, new)}
                        THEN json_set({new}, '$.lifecycle', json({stored} -> '$.lifecycle'))
                    WHEN {readings.keeps_intent(stored, new)}
                        THEN json_set({new}, '{intent}', json({stored} -> '{intent}'))
                    ELSE {new} END,
                resource_id = COALESCE(excluded.resource_id, {self.runs}.resource_id),
                updated_at = excluded.updated_at
            WHERE {readable(stored, passes)}
        """
        self.persist_unparsed = f"""
            UPDATE {self.runs} SET snapshot = :snapshot, updated_at = :updated_at,
                resource_id = COALESCE(:resource_id, resource_id)
            WHERE {AT_ADDRESS} AND snapshot = :expected_snapshot AND NOT json_valid(snapshot)
        """
        self.judge = f"""
            SELECT json_valid(:snapshot) AS is_storable, json_valid(snapshot) AS is_parsed,
                CASE WHEN json_valid(snapshot) THEN NULL ELSE snapshot END AS unparsed
            FROM (SELECT 1) LEFT JOIN {self.runs} ON {AT_ADDRESS}
        """


@lru_cache(maxsize=32)
def queries_for(prefix: str) -> Queries:
    """The texts for a prefix. Raises `MalformedRunInputError`."""
    return Queries(prefix)
