"""scripts/check_docs.py finds wrong links, paths, folders and commands in documents."""

import pathlib
import sys
import tempfile

import harness

sys.path.insert(0, str(harness.SOURCE / "scripts"))
import check_docs

RIGHT = """# A page
See [the guide](GUIDE.md#a-second-part), [this](#a-page) and `rnic/qp/`.

| what | test |
|---|---|
| a | `verbs_list` Documents.test_right_page, `rc_scripts` |

```
scripts/bench compare --quick
scripts/suites --only test_qp pyverbs
meson test -C build --suite unit verbs_list
build/urnic run --standalone -- sh -c 'ib_write_bw -d urnic0 & sleep 1; ib_write_bw --no-such-option'
urnic fault add drop --probability 0.01 --seed 7 && urnic status --json
urnicd --config FILE.toml --check
URNIC_BUILD_DIR=build-pgo scripts/bench
```
"""
WRONG = (
    ("[a](none.md)", "there is no none.md"),
    ("[a](GUIDE.md#third)", "no heading of GUIDE.md"),
    ("[a](#b)", "no heading of page.md"),
    ("`rnic/qp/no_such.h`", "not in the tree"),
    ("`rnic/no_such/`", "not in the tree"),
    ("`scripts/no_such`", "no program scripts/no_such"),
    ("`scripts/bench --no-such`", "no option --no-such"),
    ("`scripts/bench nosuch`", "knows no nosuch"),
    ("`scripts/build nosuch`", "no target nosuch"),
    ("`urnic walk`", "no command walk"),
    ("`urnic run --no-such -- ls`", "no option --no-such"),
    ("`urnic fault add drop --no-such`", "no option --no-such"),
    ("`urnic fault walk`", "no command walk"),
    ("`urnicd --no-such`", "no option --no-such"),
    ("`build/nosuch`", "nothing builds build/nosuch"),
    ("`meson test -C build no_such`", "no test no_such"),
    ("`meson test -C build --suite nosuch`", "no suite nosuch"),
    ("`meson walk`", "no command walk"),
    ("| what | test |\n|---|---|\n| a | `no_such` Suite.Name |", "no test no_such"),
    ("| what | test |\n|---|---|\n| a | `verbs_list` Documents.test_no_such_" + "case |", "no test Documents.test_no_such_" + "case"),
    ("| what | test |\n|---|---|\n| a | `verbs_list` test_right_page, NoSuch" + "Suite |", "no test NoSuch" + "Suite"),
    ("```\nls && urnic status --no-such\n```", "no option --no-such"),
)


class Documents(harness.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "GUIDE.md").write_text("# Guide\n## A `second` part\n", encoding="utf-8")
        self.programs = check_docs.Programs(harness.BUILD)

    def problems(self, text):
        check_docs.page_at.cache_clear()
        page = self.folder / "page.md"
        page.write_text(text, encoding="utf-8")
        return [problem for _, problem in check_docs.problems(page, self.programs)]

    def test_right_page(self):
        self.assertEqual(self.problems(RIGHT), [])

    def test_each_wrong_line_is_one_problem(self):
        for text, expected in WRONG:
            with self.subTest(text):
                found = self.problems(RIGHT + "\n" + text + "\n")
                self.assertEqual(len(found), 1, found)
                self.assertIn(expected, found[0])

    def test_table_of_folders(self):
        rows = [f"| `{folder}` | what lives there |" for folder in check_docs.check_layers.FOLDERS]

        def problems(rows):
            page = self.folder / "page.md"
            page.write_text("\n".join(rows) + "\n", encoding="utf-8")
            return [problem for _, problem in check_docs.folder_problems(check_docs.Page(page))]

        self.assertEqual(problems(rows), [])
        self.assertIn("lacks base", problems(rows[1:])[0])
        self.assertIn("not in FOLDERS", problems([*rows, "| `rnic/no_such` | nothing |"])[0])


if __name__ == "__main__":
    harness.main()
