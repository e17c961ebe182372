"""What `urnic conform --json` wrote."""

import json
import pathlib


def has_inconclusive(file):
    """Whether a case of the run was `inconclusive`: --resume judges it again."""
    record = json.loads(pathlib.Path(file).read_text(encoding="utf-8"))
    return any(case["verdict"] == "inconclusive" for case in record["cases"])
