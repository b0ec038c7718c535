"""Why a demo cannot go on, in one line. Knows no exit status."""


class DemoFailed(Exception):
    """The demo stopped; `str()` is the line to print."""


class FixtureBroken(DemoFailed):
    """The fixture directory is not what fixtures/README.md describes."""
