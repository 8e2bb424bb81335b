import csv
import io

import pytest

from atlas_gym.experiments.report.table_formats import Table, as_csv, harmless

FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "\t=1", "-A1"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_text_that_would_be_run_begins_with_an_apostrophe(cell):
    assert harmless(cell) == f"'{cell}"
    assert harmless(harmless(cell)) == f"'{cell}"


@pytest.mark.parametrize(
    "cell",
    ["-0.0788 ± 0.0022", "-1e-05", "+3.5", "-0.2 [-0.3, -0.1]", "-nan", "kalman", "a=b", "", 3, -0.5, None],
)
def test_figures_and_words_stay_as_they_are(cell):
    assert harmless(cell) == cell


def test_no_cell_of_a_table_is_a_formula():
    table = Table("t", "title", tuple(FORMULAS), (tuple(FORMULAS), ("-0.1",) * len(FORMULAS)), "")
    cells = [cell for row in csv.reader(io.StringIO(as_csv(table))) for cell in row]
    assert all(cell.startswith("'") or cell == "-0.1" for cell in cells)
