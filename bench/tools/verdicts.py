"""What figures say beside a target, and the table that says so: one row for each thing measured."""

import machine

HEAD = ["| what | unit | target | met | urnic | beside it | ratio |", "|---|---|---|---|---|---|---|"]


def judge(group, row, samples, cpus):
    """Each part of a row's target with what was found, and whether it holds."""
    less = group["better"] == "less"
    ours = samples[row["name"]]
    ratios = {name: machine.summary([own / other if other else float("inf") for own, other in zip(ours, samples[name])])
              for name in group.get("beside", {})}
    found = machine.summary(ours)
    parts = []
    for target in row.get("target", group.get("target", [])):
        if "value" in target:
            held = found["median"] <= target["value"] if less else found["median"] >= target["value"]
            parts.append({"target": target.get("shown") or machine.figure(target["value"]), "held": held})
        elif "ahead_of" in target:
            behind = [name for name in target["ahead_of"] if (ratios[name]["median"] >= 1) == less]
            parts.append({"target": "ahead of " + ", ".join(target["ahead_of"]), "held": not behind, "behind": behind})
        else:
            wanted = target["ratio_on_4_cpus"] if cpus >= 4 and "ratio_on_4_cpus" in target else target["ratio"]
            ratio = ratios[target["of"]]["median"]
            parts.append({"target": f"{wanted:g} of {target['of']}", "held": ratio <= wanted if less else ratio >= wanted})
    return {"row": row["name"], "group": group["name"], "unit": group["unit"], "better": group["better"], "result": found,
            "beside": {name: machine.summary(samples[name]) for name in group.get("beside", {})}, "ratios": ratios,
            "target": parts, "held": all(part["held"] for part in parts)}


def table_row(entry):
    targets = "; ".join(part["target"] for part in entry["target"]) or "-"
    met = "-" if not entry["target"] else "yes" if entry["held"] else "**no**"
    beside = "<br>".join(f"{name} {machine.cell(value)}" for name, value in entry["beside"].items()) or "-"
    ratios = "<br>".join(machine.cell(value) for value in entry["ratios"].values()) or "-"
    return f"| {entry['row']} | {entry['unit']} | {targets} | {met} | {machine.cell(entry['result'])} | {beside} | {ratios} |"
