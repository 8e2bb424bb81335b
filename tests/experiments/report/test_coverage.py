"""Coverage: recomputed here from the candidates the slow way."""

from atlas_gym.agents.population.clusters import Clusters, signature
from atlas_gym.experiments.report.coverage import coverage
from atlas_gym.experiments.report.data import read_run


def test_coverage_counts_what_each_island_has_found(run_folder):
    run = read_run(run_folder)
    found = coverage(run)
    assert found["rounds"] == list(range(15))
    for row, island in enumerate(found["islands"]):
        for round_ in (0, 5, 14):
            own = [c for c in run.candidates if c.island == island and c.round <= round_ and c.passed]
            assert found["best"][row][round_] == max(c.score for c in own)
            assert found["programs"][row][round_] == len({c.program_key for c in own})


def test_clusters_are_those_of_one_fold_over_all_islands(run_folder):
    run = read_run(run_folder)
    clusters, of = Clusters(), {}
    for c in run.candidates:
        if c.passed and c.program_key not in of:
            of[c.program_key] = clusters.add(signature(c.program, c.score, c.metrics))
    found = coverage(run)
    for row, island in enumerate(found["islands"]):
        reached = {of[c.program_key] for c in run.candidates if c.island == island and c.passed}
        assert found["clusters"][row][-1] == len(reached)
    assert max(map(max, found["clusters"])) > 1
