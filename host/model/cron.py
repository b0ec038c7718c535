"""Cron expressions of five fields, in the grammar that Cloudflare's cron triggers have (MW-17). Knows no time.

Each field is `*`, or a list of `a`, `a-b`, `a/n`, `a-b/n` and `*/n`. Days of the week count from 1 (Sunday) to 7.
Beyond a list, the day of the month may be `L`, `LW`, `L-n`, `L-nW` or `nW`, the day of the week `L`, `nL` or `n#k` (the
k-th of a month). A range may run over the end (`22-4`).
"""

import re
from dataclasses import dataclass

LONGEST_CRON = 512
"""Characters: enough for every minute by its number."""

_NUMBER = re.compile(r"[0-9]{1,3}")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SHAPE = "minute, hour, day of month, month and day of week, with one space between"


class CronRefused(ValueError):
    """The text is no expression; `str()` names the field and says why, without more of the text than that field."""


def check_cron(text: str) -> None:
    """Raises `CronRefused`."""
    fields = text.split(" ")
    if len(text) > LONGEST_CRON or len(fields) != len(_FIELDS) or not all(fields):
        raise CronRefused(f"a cron expression has five fields, {_SHAPE}, and at most {LONGEST_CRON} characters")
    for field, given in zip(_FIELDS, fields, strict=True):
        field.check(given)


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its values are `lowest` to `highest`, by number or by `names` from the lowest on."""

    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()

    def check(self, given: str) -> None:
        if given != "*" and not self._is_special(given):
            for item in given.split(","):
                self._check_item(item, given)

    def _check_item(self, item: str, given: str) -> None:
        span, slash, step = item.partition("/")
        if slash:
            self._check_number(step, "a step", 1, self.highest - self.lowest)
        if span == "*":
            if not slash:
                raise self._refusal(f"{_shown(given)} has * beside other values: it stands alone, or with a step")
            return
        first, dash, last = span.partition("-")
        self._check_value(first)
        if dash:
            self._check_value(last)

    def _check_value(self, text: str) -> None:
        if not text.isascii() or text.upper() not in self.names:
            self._check_number(text, "a value", self.lowest, self.highest)

    def _check_number(self, text: str, what: str, lowest: int, highest: int) -> None:
        if _NUMBER.fullmatch(text) is None:
            names = f", or {self.names[0]} to {self.names[-1]}" if self.names and what == "a value" else ""
            raise self._refusal(f"{_shown(text)} is not {what}: a number from {lowest} to {highest}{names}")
        if not lowest <= int(text) <= highest:
            raise self._refusal(f"{text} is not {what} from {lowest} to {highest}")

    def _is_special(self, given: str) -> bool:
        """A form that stands for the whole field; its numbers are checked. Raises `CronRefused`."""
        return False

    def _refusal(self, why: str) -> CronRefused:
        return CronRefused(f"{self.name}: {why}")


class _DayOfMonth(_Field):
    def _is_special(self, given: str) -> bool:
        if given in ("L", "LW"):
            return True
        before_last = re.fullmatch(r"L-(.*?)W?", given)
        if before_last is not None:
            self._check_number(before_last[1], "a number of days before the last", 1, self.highest - 1)
            return True
        if given.endswith("W"):
            self._check_value(given.removesuffix("W"))
            return True
        return False


class _DayOfWeek(_Field):
    def _is_special(self, given: str) -> bool:
        day, hash_sign, which = given.partition("#")
        if hash_sign:
            self._check_value(day)
            self._check_number(which, "a week of the month", 1, 5)
            return True
        if given.endswith("L"):
            if given != "L":
                self._check_value(given.removesuffix("L"))
            return True
        return False


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _DayOfMonth("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _DayOfWeek("day of week", 1, 7, _DAYS),
)


def _shown(text: str) -> str:
    """A part of the expression, as people can read it."""
    return ascii(text) if len(text) <= 40 else f"{text[:40]!a}..."
