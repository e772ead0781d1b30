import io
import sys

import pytest

from millstream.cli.output import Column, emit_rows, emit_table, visible

COLUMNS = (Column("name", "NAME"), Column("count", "COUNT", right=True))


def test_a_table_in_a_pipe_is_plain_and_cuts_nothing_off(capsys: pytest.CaptureFixture[str]) -> None:
    long_name = "x" * 300

    emit_table([{"name": long_name, "count": 7}, {"name": "b", "count": None}], COLUMNS)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "COUNT"]
    assert lines[1] == f"{long_name}      7"
    assert lines[2].split() == ["b", "-"]
    assert all(line == line.rstrip() for line in lines)


def test_markup_in_data_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    emit_table([{"name": "[bold]x[/bold] :smile:", "count": 1}], COLUMNS)

    assert "[bold]x[/bold] :smile:" in capsys.readouterr().out


def test_control_characters_in_data_dont_reach_the_terminal() -> None:
    assert visible("a\x1b[31mb\nc\u202e") == r"a\x1b[31mb\nc\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bold_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")

    emit_table([{"name": "a", "count": 1}], COLUMNS)

    assert "\x1b[1mNAME" in terminal.getvalue()


def test_a_narrow_terminal_folds_and_keeps_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")

    emit_table([{"name": "abcdefghij" * 4, "count": 1}], COLUMNS)

    assert "".join(terminal.getvalue().split()).count("j") == 4


def test_json_keeps_the_raw_values(capsys: pytest.CaptureFixture[str]) -> None:
    emit_rows([{"name": "ü", "count": None}], COLUMNS, "json")

    assert capsys.readouterr().out == '[\n  {\n    "name": "ü",\n    "count": null\n  }\n]\n'
