"""Methods over several studies: means of each, differences paired by seed and then by task."""

import pandas as pd
import pytest
from scipy import stats

from atlas_gym.experiments.studies.over_tasks import main, over_tasks


def runs(**improvements: list[float]) -> pd.DataFrame:
    return pd.DataFrame([
        {"arm": arm, "seed": seed, "improvement": value}
        for arm, values in improvements.items()
        for seed, value in enumerate(values)
    ])  # fmt: skip


def test_difference_is_paired_by_seed_and_averaged_over_tasks() -> None:
    made = over_tasks({
        "tours": runs(search=[0.1, 0.3], atlas=[0.2, 0.5]),
        "bins": runs(search=[0.0], atlas=[0.05]),
        "circles": runs(search=[0.4, 0.1], atlas=[0.3, 0.1]),
    })  # fmt: skip
    first, second = made.rows
    assert first == ("search", "20.0 ± 10.0 %", "0.0 %", "25.0 ± 15.0 %", "")
    low, high = stats.t.interval(0.95, 2, loc=5.0, scale=stats.sem([15.0, 5.0, -5.0]))
    assert second[-1] == f"+5.0 [{low:+.1f}, {high:+.1f}] (3 tasks)"


def test_seeds_that_one_method_lacks_do_not_count() -> None:
    made = over_tasks({name: runs(search=[0.1, 0.9], atlas=[0.2]) for name in ("tours", "bins")})
    assert made.rows[1] == ("atlas", "20.0 %", "20.0 %", "+10.0 [+10.0, +10.0] (2 tasks)")


def test_any_method_may_be_the_one_to_compare_with() -> None:
    studies = {"tours": runs(search=[0.1], atlas=[0.2]), "bins": runs(search=[0.1], atlas=[0.2])}
    made = over_tasks(studies, against="atlas")
    assert made.columns[-1] == "Less atlas"
    assert [row[-1] for row in made.rows] == ["-10.0 [-10.0, -10.0] (2 tasks)", ""]
    with pytest.raises(ValueError, match="no method 'evo'; there are search, atlas"):
        over_tasks(studies, against="evo")


def test_missing_data_are_one_line(tmp_path) -> None:
    with pytest.raises(SystemExit, match=r"runs\.csv.*atlas study"):
        main([str(tmp_path)])
    (tmp_path / "runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="damaged"):
        main([str(tmp_path)])


def test_arms_may_be_called_by_numbers_and_by_nothing(tmp_path, capsys) -> None:
    (tmp_path / "runs.csv").write_text("arm,start,seed,improvement\n64,named,0,0.1\nNone,named,0,0.3\n")
    main([str(tmp_path), "--against", "None"])
    assert "| 64 | 10.0 % |" in capsys.readouterr().out


def test_a_study_of_several_starts_is_named(tmp_path) -> None:
    (tmp_path / "runs.csv").write_text("arm,start,seed,improvement\na,named,0,0.1\na,inlined,0,0.3\n")
    with pytest.raises(SystemExit, match="has several starts"):
        main([str(tmp_path)])
