"""The theory of EvoDPO as an executable study: does a moving reference lower dynamic regret under drift?

Section 2.3 and appendix A of the ATLAS paper study a preference-based linear contextual bandit whose
parameter drifts. This package simulates it, many seeds at once:

    model               the bandit (Eqs. 6-9) and the paths of its parameter
    estimator           sliding-window regularised logistic regression (Eqs. 20-22)
    policies            tables of log-probabilities: tilting (Eqs. 10-12), the support floor, divergences
    learner, simulate   one method on one batch of bandits, phase by phase
    inequalities        those of appendix A, and counting along paths how often they fail
    lemma_study         the same on random instances, with assumptions broken on purpose, and two limits in numbers
    settings, runner    which settings are compared (`plan.yaml`), and running them in parallel
    tables, figures     what is written

`python -m atlas_gym.experiments.theory --quick` (or `--full`) runs it; `docs/theory.md` says what came out.
"""
