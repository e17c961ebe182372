#!/usr/bin/python3
"""What scripts/bench makes of figures: ratios, verdicts, tables. Measures nothing."""

import pathlib
import sys
import tempfile
import tomllib
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]
import machine
import run
from programs import Programs

FASTER, SLOWER = [10.0, 12.0, 11.0], [5.0, 6.0, 5.5]


def verdict(better, ours, other, target, cpus=2):
    group = {"name": "g", "unit": "u", "better": better, "beside": {"other": ["floor"]}}
    return run.judge(group, {"name": "row", "run": ["x"], "target": [target]}, {"row": ours, "other": other}, cpus)


class Verdicts(unittest.TestCase):
    def test_value(self):
        self.assertTrue(verdict("more", FASTER, SLOWER, {"value": 11.0})["held"])
        self.assertFalse(verdict("more", FASTER, SLOWER, {"value": 11.1})["held"])
        self.assertTrue(verdict("less", FASTER, SLOWER, {"value": 11.0})["held"])
        self.assertFalse(verdict("less", FASTER, SLOWER, {"value": 10.9})["held"])

    def test_ratio(self):
        self.assertEqual(verdict("more", FASTER, SLOWER, {"of": "other", "ratio": 2})["ratios"]["other"]["median"], 2)
        self.assertTrue(verdict("more", FASTER, SLOWER, {"of": "other", "ratio": 2})["held"])
        self.assertFalse(verdict("more", FASTER, SLOWER, {"of": "other", "ratio": 2.1})["held"])
        self.assertTrue(verdict("less", FASTER, SLOWER, {"of": "other", "ratio": 2})["held"])
        self.assertFalse(verdict("less", FASTER, SLOWER, {"of": "other", "ratio": 1.9})["held"])

    def test_ratios_are_taken_within_a_repetition(self):
        # The machine halves its speed after the first repetition: the ratio stays.
        found = verdict("more", [10, 5, 5], [20, 10, 10], {"of": "other", "ratio": 0.5})
        self.assertEqual(found["ratios"]["other"]["samples"], [0.5, 0.5, 0.5])

    def test_ahead_of(self):
        self.assertTrue(verdict("more", FASTER, SLOWER, {"ahead_of": ["other"]})["held"])
        self.assertFalse(verdict("more", SLOWER, FASTER, {"ahead_of": ["other"]})["held"])
        self.assertTrue(verdict("less", SLOWER, FASTER, {"ahead_of": ["other"]})["held"])
        self.assertFalse(verdict("less", FASTER, SLOWER, {"ahead_of": ["other"]})["held"])
        self.assertEqual(verdict("less", FASTER, SLOWER, {"ahead_of": ["other"]})["target"][0]["behind"], ["other"])

    def test_more_cpus_ask_for_more(self):
        target = {"of": "other", "ratio": 1, "ratio_on_4_cpus": 3}
        self.assertTrue(verdict("more", FASTER, SLOWER, target)["held"])
        self.assertFalse(verdict("more", FASTER, SLOWER, target, cpus=4)["held"])


class DataFiles(unittest.TestCase):
    def check(self, words, functions):
        self.assertTrue(hasattr(functions, words[0]), f"{words}: there is no such function")
        self.assertTrue(all(isinstance(word, str) for word in words), words)

    def test_every_row_can_run_and_has_an_aim(self):
        with open(HERE / "targets.toml", "rb") as file:
            groups = tomllib.load(file)["group"]
        names = [row["name"] for group in groups for row in group["rows"]]
        self.assertEqual(len(names), len(set(names)))
        for group in groups:
            self.assertIn(group["better"], ("more", "less"))
            beside = group.get("beside", {})
            for words in (*beside.values(), *(row["run"] for row in group["rows"])):
                self.check(words, run.Rows)
            for row in group["rows"]:
                for target in row.get("target", group.get("target")):
                    for other in [*target.get("ahead_of", []), *([target["of"]] if "of" in target else [])]:
                        self.assertIn(other, beside, row["name"])

    def test_every_series_can_run(self):
        with open(HERE.parent / "compare" / "pictures.toml", "rb") as file:
            pictures = tomllib.load(file)["picture"]
        for picture in pictures:
            for series in picture["series"]:
                if series["run"][0] not in ("rate_by_qps", "goodput"):  # of bench/compare/run.py, which needs matplotlib
                    self.check(series["run"], Programs)
                self.assertIn("{x}", series["run"])


class Writing(unittest.TestCase):
    def test_figures(self):
        self.assertEqual([machine.figure(value) for value in (0.01234, 5, 1234567, 99.96)], ["0.0123", "5", "1,230,000", "100"])

    def test_page(self):
        with tempfile.TemporaryDirectory() as directory:
            page = pathlib.Path(directory, "page.md")
            page.write_text("before\n<!-- m -->\nold\n<!-- end of m -->\nafter\n", encoding="utf-8")
            machine.write_between(page, "m", "new\n")
            machine.write_between(page, "m", "newer\n")
            self.assertEqual(page.read_text(encoding="utf-8"), "before\n<!-- m -->\nnewer\n<!-- end of m -->\nafter\n")
            with self.assertRaises(machine.Failure):
                machine.write_between(page, "other", "x\n")

    def test_some_rows_are_renewed(self):
        found = {"date": "d", "commit": "c", "cpu": "x", "cpus": 2, "kernel": "k", "load_before": 0.3}
        options = types.SimpleNamespace(only="b", repetitions=3, seconds=1.0)

        def entries(*rows):
            group = {"name": "g", "unit": "u", "better": "more"}
            return [run.judge(group, {"name": name, "run": ["x"], "target": [{"value": 1.0}]}, {name: [figure]}, 2)
                    for name, figure in rows]

        old = "\n".join(["about", "", *run.HEAD, *map(run.table_row, entries(("a", 7.0), ("b", 8.0)))]) + "\n"
        new = run.renewed(old, entries(("b", 9.0), ("bb", 6.0)), found, options)
        again = run.renewed(new, entries(("b", 5.0)), found, options)
        for table, figures in ((new, [("a", "7"), ("b", "9"), ("bb", "6")]), (again, [("a", "7"), ("b", "5"), ("bb", "6")])):
            rows = [line.split(" | ") for line in table.splitlines()[4:7]]
            self.assertEqual([(row[0].removeprefix("| "), row[4].split(" ")[0]) for row in rows], figures)
            self.assertEqual(table.count("Rows of `--only b`: "), 1)
            self.assertTrue(table.startswith("about\n\n"))

    def test_busy_machine_is_named(self):
        quiet = {"date": "d", "commit": "c", "cpu": "x", "cpus": 2, "kernel": "k", "load_before": 0.3, "steal_percent": 0.0,
                 "others_percent": 0.0}
        self.assertNotIn("Do not quote", machine.about(quiet))
        self.assertIn("Do not quote", machine.about({**quiet, "others_percent": 20.0}))
        self.assertNotIn("Do not quote", machine.about({**quiet, "load_before": 1.0}))  # what ran before is over
        for name in ("steal_percent", "others_percent"):
            del quiet[name]
        self.assertNotIn("Do not quote", machine.about(quiet))
        self.assertIn("Do not quote", machine.about({**quiet, "load_before": 1.0}))

    def test_pages_have_their_marks(self):
        for page, mark in (*(("bench/RESULTS.md", mark) for mark in run.MARKS.values()), ("docs/performance.md", "comparison: scripts/bench compare writes it"),
                           ("docs/performance.md", "table of stages: scripts/bench stages writes it")):
            text = (machine.SOURCE / page).read_text(encoding="utf-8")
            self.assertEqual((text.count(f"<!-- {mark} -->"), text.count(f"<!-- end of {mark} -->")), (1, 1), page)


if __name__ == "__main__":
    unittest.main()
