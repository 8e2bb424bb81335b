"""The constructions' experts, confined: each builds its answer within the limits and comes as near as the page says."""

import pytest

from atlas_gym.tasks.registry import make_task

NEAR = [
    ("CirclesRectangle", "default", "rectangle_slsqp", 0.01),
    ("HeilbronnTriangle", "default", "heilbronn_triangle_published", 1e-9),
    ("HeilbronnConvex", "default", "heilbronn_convex_published", 1e-9),
    ("HeilbronnConvex", "points_14", "heilbronn_convex_published", 1e-9),
    ("DistanceRatio", "default", "distance_ratio_slsqp", 0.01),
    ("DistanceRatio", "space_14", "distance_ratio_slsqp", 0.01),
    ("Kissing", "default", "kissing_582", 0.04),
    ("Kissing", "default", "kissing_604", 0.0),
    ("Autocorrelation1", "default", "autocorrelation_first", 0.01),
    ("Autocorrelation2", "default", "autocorrelation_second", 0.07),
    ("Autocorrelation3", "default", "autocorrelation_third", 0.02),
    ("MinimumOverlap", "default", "minimum_overlap", 0.002),
    ("SumsDifferences", "default", "bounded_simplex", 0.03),
    ("Hadamard", "default", "hadamard_published", 0.0),
    ("Hexagons", "default", "hexagons_slsqp", 0.01),
    ("Hexagons", "hexagons_12", "hexagons_slsqp", 0.01),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset", "expert", "away"), NEAR)
def test_experts_come_near_the_best_known(evaluator, name, preset, expert, away):
    task = make_task(f"ATLAS-Construct-{name}-v0", preset=preset)
    found = evaluator.evaluate(task.programs[expert].program, task)
    assert found.ok, found.detail
    assert -away <= found.score < 1e-6


def test_every_expert_is_here():
    tried = {(name, expert) for name, _, expert, _ in NEAR}
    there = {
        (name, expert)
        for name in {name for name, *_ in NEAR}
        for expert in make_task(f"ATLAS-Construct-{name}-v0").programs
    }
    assert there - tried == {(name, start) for name, start in there if start in ("start", "scratch")}
