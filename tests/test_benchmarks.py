"""The texts of `python -m benchmarks` and its pages about measurements; none is made here."""

import re
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.growth import Curve, write_page
from benchmarks.measuring import Comparison

README = (Path(benchmarks.__file__).parent / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| (B\d+(?:, B\d+)*) \|.*\| ((?:`\w+`(?:, )?)+) \|", re.M)


def modules_in_the_readme() -> dict[str, set[str]]:
    return {
        number: set(re.findall(r"\w+", modules))
        for numbers, modules in ROW.findall(README)
        for number in numbers.split(", ")
    }


def test_help_lists_every_part_with_its_module_and_numbers(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--help"])
    benchmarks.main()
    told = capsys.readouterr().out
    assert "  Committing (commits, B4)\n" in told
    assert "  Workers (worker_jobs, B12, B16)\n" in told
    assert "B11 is measured by `make bench-pages`." in told


def test_an_unknown_name_lists_the_known_ones(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "B99"])
    with pytest.raises(SystemExit, match=r"is called B99[\s\S]*Growth \(growth, B18\)"):
        benchmarks.main()


def rebase_of_nothing() -> list[Comparison]:
    return []


rebase_of_nothing.__module__ = "benchmarks.rebase"


def test_a_part_says_its_name_and_its_numbers_when_it_begins(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "rebase"])
    monkeypatch.setitem(benchmarks._MEASUREMENTS, "Rebase", rebase_of_nothing)
    benchmarks.main()
    assert capsys.readouterr().out.startswith("Rebase (rebase, B14) …\n")


def test_the_readme_names_the_modules_of_each_number():
    expected = {
        number: {benchmarks._module(title) for title in titles}
        for number, titles in benchmarks._NUMBERS.items()
    }
    told = modules_in_the_readme()
    assert told.pop("B11") == {"dashboard_load", "dashboard_connections"}
    assert told == expected


def test_growth_says_no_power_where_no_step_is_long_enough(tmp_path):
    curve: Curve = {1: {"open": 2.0, "append": 9.0}, 10: {"open": 20.0, "append": 9.5}}
    write_page({"Live files, in one checkpoint": curve}, tmp_path / "growth.md")
    assert "| power | 1.00 | – |" in (tmp_path / "growth.md").read_text("utf-8")
