// What a run came to, in four figures, and what it was asked to do.

function overview(run) {
  const {initial, best, written} = run;
  const head = el("p", {class: "lead"}, run.confirmed
    ? `Complete: ${run.rounds} rounds.`
    : `In progress: round ${run.rounds} of ${run.plannedRounds}; the best program is not confirmed yet.`);
  if (!initial) return section("overview", run.name, null, el("p", {class: "lead"}, "Nothing is stored yet."));
  return section("overview", run.name, null, head,
    run.confirmed ? null : el("progress", {max: run.plannedRounds, value: run.rounds, "aria-label": "rounds done"}),
    el("dl", {class: "figures"},
      figure("Best score, training seeds", number(best.score), `from ${number(initial.score)}: ${gain(initial.score, best.score)}`),
      figure("Best score, held-out seeds", number(best.heldOut), best.heldOut === null
        ? "confirmed when the run ends"
        : `from ${number(initial.heldOut)}: ${gain(initial.heldOut, best.heldOut)}; ±\u00a0${number(standardError(best.heldOutScores))} (standard error over seeds); training minus held-out ${best.gap}`),
      figure("Different programs", written.evaluated.toLocaleString("en"),
        `of ${written.candidates.toLocaleString("en")} candidates; ${percent(written.valid_share)} ran`),
      figure("Promotions", `${run.tuned.filter((p) => p.promoted).length} of ${run.tuned.length}`,
        "fine-tuning phases" + (run.phases.length > run.tuned.length ? `, ${run.phases.length - run.tuned.length} more skipped` : ""))),
    el("details", {}, el("summary", {}, "Configuration"),
      el("dl", {class: "config"}, run.config.map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]))));
}

function figure(name, value, note) {
  return el("div", {}, el("dt", {}, name), el("dd", {class: "value"}, value), el("dd", {class: "note"}, note));
}

// Scores are negative losses: the share of the start's loss that is gone.
function gain(initial, final) {
  return initial ? `${percent(1 - final / initial, 1)} better` : "–";
}

// Of a long run, what the charts and the lineage leave out.
function selection(run) {
  if (run.size === run.total) return "";
  return ` Of ${run.total.toLocaleString("en")} candidates ${run.size.toLocaleString("en")} are shown: improvements, the best ` +
    "with their ancestors, and a random draw of the others with their parents; repeats are left out. The run store has all.";
}

function standardError(values) {
  if (values.length < 2) return null;
  const mean = values.reduce((a, b) => a + b) / values.length;
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1) / values.length);
}
