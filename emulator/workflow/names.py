"""Instance ids, step names and event types: 1 to 256 Unicode scalar values (DW-11, DW-16, DW-30). Pure."""

LONGEST_NAME = 256
LONGEST_MESSAGE = 2048


def is_name(value: object) -> bool:
    """Whether `value` is a text of 1 to 256 scalar values; a lone surrogate is none."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def storable_message(text: str) -> str:
    """A message of app code as it is kept: lone surrogates replaced, cut to 2048 characters (house)."""
    return text[:LONGEST_MESSAGE].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
