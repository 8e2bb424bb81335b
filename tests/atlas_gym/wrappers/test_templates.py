"""Parameters, templates and those that come with the environments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import atlas_gym
from atlas_gym import make_task
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.tasks.registry import BUILT_IN, find_task
from atlas_gym.wrappers import Parameter, Template

IDS = list(BUILT_IN)
ALL = [(env_id, name) for env_id in IDS for name in [t.name for t in find_task(env_id).templates]]
FINITE = {"allow_nan": False, "allow_infinity": False}


@st.composite
def parameters(draw):
    scale = draw(st.sampled_from(["log", "linear"]))
    least = 0.001 if scale == "log" else -1000.0
    if draw(st.booleans()):
        low = draw(st.integers(1 if scale == "log" else -1000, 1000))
        return Parameter("x", low, low + draw(st.integers(1, 1000)), scale, integer=True)
    low = draw(st.floats(least, 1000.0, **FINITE))
    return Parameter("x", low, low + draw(st.floats(0.01, 1000.0, **FINITE)), scale)


@given(parameters(), st.floats(-1e6, 1e6, **FINITE))
def test_values_stay_within_their_bounds(parameter, coordinate):
    value = parameter.value(coordinate)
    assert parameter.low <= value <= parameter.high
    assert isinstance(value, int) == parameter.integer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("x", 0, 1), "from above 0"), (("x", 2, 1), "in order"), (("x", 1, 2, "cubic"), "scale 'cubic'")],
)
def test_impossible_parameters_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Parameter(*arguments)


@pytest.mark.parametrize(
    "text", ["no place\n", "x = $a + $b\n", "x = $a + $\n"], ids=["missing", "unknown", "stray"]
)
def test_the_places_have_to_be_the_parameters(text):
    with pytest.raises(ValueError, match="places"):
        Template("t", text, (Parameter("a", 1, 2),))


@pytest.mark.parametrize(("env_id", "name"), ALL)
@pytest.mark.parametrize("end", [-1.0, 0.0, 1.0])
def test_shipped_templates_give_programs_of_the_environment(env_id, name, end):
    template = find_task(env_id).template(name)
    program = template.program([end] * template.size)
    assert syntax_error(program, atlas_gym.make_task(env_id).function) is None


def test_the_middle_of_the_bandits_default_is_the_papers_initial_program():
    template = find_task("ATLAS-Bandit-v0").template()
    initial = make_task("ATLAS-Bandit-v0").programs["sw_linucb"].program
    assert program_key(template.program([0.0] * template.size)) == program_key(initial)
