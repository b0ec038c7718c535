"""The spinner and colours appear on terminals only."""

import io

import pytest

from emulator.cli.terminal import Colour, paint, spinner


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_nothing_is_drawn_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with spinner("working", stream):
        pass
    assert stream.getvalue() == ""
    assert paint("text", Colour.RED, stream) == "text"


def test_a_spinner_shows_its_text_and_takes_it_away() -> None:
    stream = Terminal()
    with spinner("working", stream):
        pass
    assert "working" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_a_spinner_is_taken_away_when_the_work_fails() -> None:
    stream = Terminal()
    with pytest.raises(ValueError, match="no"), spinner("working", stream):
        raise ValueError("no")
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_colour_is_used_on_a_terminal_unless_the_user_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("text", Colour.RED, Terminal()) == "\x1b[31mtext\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("text", Colour.RED, Terminal()) == "text"
