"""The exploration supporter in its rule-based form: static analysis and targeted perturbations.

It is what it says: a list of rules over the syntax tree, no model. It varies and patches what the agent
wrote; it holds no program of its own that it could insert. The rules stand in ``code_rules``, ``loss_rules`` and
``site_rules``; recent failures and the environment's measurements raise
the priority of the rules that answer them. The same request under the same seed gives the same advice.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from atlas_gym.agents.proposals.completing import Opening
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.supporters import code_rules, loss_rules, site_rules
from atlas_gym.agents.supporters.call import RuleSupporter
from atlas_gym.agents.supporters.code_rules import Case, Finding, Fix
from atlas_gym.agents.supporters.exploration import (
    CRITIQUE_CHARS,
    ExplorationAdvice,
    ExplorationRequest,
    Patch,
    admit_patches,
)
from atlas_gym.seeding import stream
from atlas_gym.text import one_line

Rules = Mapping[str, tuple[Callable[[Case], Iterator[Finding]], ...]]
"""Rules by the trait that a task declares of its programs; those of no trait are for any program."""

ANYWHERE: Rules = {
    "": (code_rules.check_constants, code_rules.check_roots, code_rules.check_quotients),
    "drift": (code_rules.check_forgetting, code_rules.check_products),
    "memory": (code_rules.check_history, code_rules.check_memory),
    "regression": (code_rules.check_singular, code_rules.check_ridge),
    "choice": (code_rules.check_exploration,),
    "loss": (
        loss_rules.check_terms,
        loss_rules.check_unused,
        loss_rules.check_squares,
        loss_rules.check_schedule,
    ),
}
"""Rules for a program as a whole."""

AT_A_SITE: Rules = {
    **ANYWHERE,
    "": (*ANYWHERE[""], site_rules.check_summands, site_rules.check_drops, site_rules.check_wraps),
    "memory": (*ANYWHERE["memory"], site_rules.check_slices, site_rules.check_recent),
    "drift": (*ANYWHERE["drift"], site_rules.check_fading),
}
"""The same and further ones, for any expression, where the supporter answers one of the agent's prompts."""

LONGEST_PROGRAM = 20_000
"""Programs above this many characters are left alone."""

_CRITIQUE_SENTENCES = 4

_COMBINED = 0.3
"""Probability that a patch makes two changes at once."""

_PASSES = 20
"""How often the rules are asked about a site before there are enough patches: each time they draw other values."""

_A_PASS = 3
"""Changes that are made in one pass, so that several values of a likely one can be drawn."""


class RuleExplorationSupporter(RuleSupporter[ExplorationRequest, ExplorationAdvice]):
    """Rules that read a program, say what is weak about it and vary it."""

    role = "exploration"

    def advise(self, request: ExplorationRequest) -> tuple[ExplorationAdvice, str]:
        """Advice on one program; neutral if it does not parse."""
        program, bound = request.parent.program, self.settings.patch_bound
        code = Source.parse(program, request.task.function) if len(program) <= LONGEST_PROGRAM else None
        if code is None:
            return ExplorationAdvice(), "the program does not parse, lacks the entry function or is too long"
        rng = stream(self.seed, "supporter", "exploration", *request.key)
        case = Case(code, request, rng, self.settings.wider_rules)
        if request.opening is not None:
            patches = admit_patches(request, _site_patches(case, request.opening), bound)
            return ExplorationAdvice(patches=patches), ""
        findings = _findings(case, ANYWHERE)
        order = _draw_order(case, [(finding, fix) for finding in findings for fix in finding.fixes])
        patches = admit_patches(request, _patches(case, order), bound)
        return ExplorationAdvice(_critique(request, findings), patches), ""


def _findings(case: Case, rules: Rules) -> list[Finding]:
    traits = {"", *case.request.task.traits}
    asked = chain.from_iterable(checks for trait, checks in rules.items() if trait in traits)
    return list(chain.from_iterable(check(case) for check in asked))


def _site_patches(case: Case, opening: Opening) -> Iterator[Patch]:
    """Changes of what the request leaves open, pass after pass with other values."""
    for _ in range(_PASSES):
        findings = _findings(case, AT_A_SITE)
        options = [(finding, fix) for finding in findings for fix in finding.fixes if _within(opening, fix)]
        yield from _patches(case, _draw_order(case, options)[:_A_PASS])


def _within(opening: Opening, fix: Fix) -> bool:
    """Whether a fix changes nothing but what is left open."""
    return all(opening.start <= splice.start and splice.end <= opening.end for splice in fix)


def _draw_order(case: Case, options: list[tuple[Finding, Fix]]) -> list[tuple[Finding, Fix]]:
    """The options in random order, weighted by priority, without replacement (Efraimidis and Spirakis)."""
    keys = [case.rng.exponential() * len(finding.fixes) / finding.priority for finding, _ in options]
    return [option for _, option in sorted(zip(keys, options, strict=True), key=lambda pair: pair[0])]


def _patches(case: Case, order: list[tuple[Finding, Fix]]) -> Iterator[Patch]:
    for index, (finding, fix) in enumerate(order):
        if index + 1 < len(order) and case.rng.random() < _COMBINED:
            other_finding, other = order[index + 1]
            program = case.code.apply((*fix, *other))
            if program is not None:
                yield Patch(program, f"{finding.kind}+{other_finding.kind}")
        program = case.code.apply(fix)
        if program is not None:
            yield Patch(program, finding.kind)


def _critique(request: ExplorationRequest, findings: list[Finding]) -> str:
    ranked = sorted(findings, key=lambda finding: -finding.priority)
    sentences = list(dict.fromkeys(finding.message for finding in ranked))[:_CRITIQUE_SENTENCES]
    if request.failures:
        counts = Counter(failure.status for failure in request.failures).most_common()
        listed = ", ".join(f"{count} {status}" for status, count in counts)
        sentences.insert(0, f"Recent failures: {listed}.")
    return one_line(" ".join(sentences), CRITIQUE_CHARS)
