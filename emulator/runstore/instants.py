"""The text of an instant as `Date.prototype.toISOString()` writes it. Pure."""

import re
from datetime import UTC, datetime, timedelta

_FORM = re.compile(
    r"(?P<year>[0-9]{4}|[+-][0-9]{6})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})\.(?P<ms>[0-9]{3})Z",
    re.ASCII,
)
_USUAL = re.compile(
    r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
LATEST_MS = 8_640_000_000_000_000
_DAY_MS = 86_400_000


def milliseconds(text: str) -> int | None:
    """Unix milliseconds of an instant's text; None unless it is exactly what `toISOString()` gives (RS-30).

    Years beyond 9999 and before 0 have a sign and six digits, and only they have.
    """
    if _USUAL.fullmatch(text):
        return _usual_milliseconds(text)
    found = _FORM.fullmatch(text)
    return None if found is None else _milliseconds_of(found)


def _usual_milliseconds(text: str) -> int | None:
    """Of years 1 to 9999 by the standard library, which is five times as fast."""
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
    except ValueError:
        return None


def _milliseconds_of(found: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second, ms = (int(part) for part in found.groups())
    is_long = len(found["year"]) > 4
    if is_long == (0 <= year <= 9999) or not _is_date(year, month, day):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    at_ms = _days(year, month, day) * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    return at_ms if abs(at_ms) <= LATEST_MS else None


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _is_date(year: int, month: int, day: int) -> bool:
    if not 1 <= month <= 12:
        return False
    most = 30 if month in (4, 6, 9, 11) else 31
    if month == 2:
        most = 29 if _is_leap(year) else 28
    return 1 <= day <= most


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar."""
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468
