"""The measure of the house, and the two ways that are not to grow."""

from tests import structure


def test_it_counts_this_checkout_and_any_other(capsys):
    structure.size(structure.HERE)
    printed = capsys.readouterr().out
    assert all(layer in printed for layer in structure.LAYERS)
    assert "longest function" in printed


def test_a_program_crosses_few_files_on_its_way_to_a_score():
    sides = structure.way_to_a_score()
    crossed = {file for seen in sides.values() for file, _ in seen}
    assert {"atlas_gym/evaluation/scheduler.py", "atlas_gym/evaluation/evaluator.py"} <= crossed
    assert {"atlas_gym/sandbox/worker.py", "atlas_gym/tasks/bandit/driver.py"} <= crossed
    assert (
        len([file for file in crossed if not file.startswith("atlas_gym/tasks/")]) <= 11
    )  # and the fork server
