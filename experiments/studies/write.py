"""A study's data, tables and figure as files."""

from pathlib import Path

from experiments.report.table_formats import as_markdown, write_tables
from experiments.studies import rows, tables
from experiments.studies.figures import draw_study
from experiments.studies.plan import Plan

_HEAD = """# The study `{plan.name}`: {plan.env}

{about}{count}; `*.csv` has the data. Made by

```
python -m experiments.studies experiments/studies/{plan.name}.yaml
```

![Best score, valid and new programs over rounds](progress.png)

"""


def write_study(plan: Plan, folder: Path, output: Path) -> list[Path]:
    """Write what the finished runs have come to; returns the paths, none if no run is finished.

    Args:
        plan: the study.
        folder: where the runs' folders lie.
        output: where the files go: `*.csv` (data), `tables/` (CSV, Markdown, LaTeX), `progress.png`, `README.md`.
    """
    runs = rows.finished(plan, folder)
    if not runs:
        return []
    output.mkdir(parents=True, exist_ok=True)
    data = {
        "runs": list(rows.run_rows(runs)),
        "rounds": list(rows.round_rows(runs)),
        "phases": list(rows.phase_rows(runs)),
        "origins": list(rows.origin_rows(runs)),
        "probes": list(rows.probe_rows(runs)),
    }
    paths = [rows.write_csv(found, output / f"{name}.csv") for name, found in data.items() if found]
    made = [
        tables.final_scores(data["runs"]),
        tables.ablation(data["runs"]),
        tables.interventions(data["runs"]),
        tables.interventions_by_run(data["runs"]),
        tables.shares(data["runs"], data["rounds"]),
        tables.origins(data["origins"]),
        tables.probes(data["probes"]),
    ]
    made = [table for table in made if table.rows]
    paths += write_tables(made, output / "tables")
    paths += draw_study(data["rounds"], output)
    page = output / "README.md"
    count = f"{len(runs)} of {len(plan.runs())} runs finished"
    about = f"{plan.about.strip()}\n\n" if plan.about else ""
    head = _HEAD.format(plan=plan, count=count, about=about)
    page.write_text(head + "\n".join(map(as_markdown, made)), encoding="utf-8")
    return [*paths, page]
