// One candidate: where it came from, how it did, and what it changed.

function candidateView(run, index, select) {
  const c = run.candidate(index);
  const parent = c.parent >= 0 ? run.candidate(c.parent) : null;
  return el("div", {class: "candidate", "aria-live": "polite"},
    el("h3", {}, `Candidate ${c.id}`, chip(c.status, c.status === "ok" ? "good" : "bad"), chip(c.origin, c.origin),
      index === run.bestIndex ? chip("best of the run", "good") : null),
    el("div", {class: "columns"},
      el("div", {}, facts(c, parent), relatives(run, c, parent, select)),
      el("div", {class: "programs"}, parent
        ? [el("h4", {}, `Changes to its parent, candidate ${parent.id}`), scrolled(diffView(parent.program, c.program)),
          el("details", {}, el("summary", {}, "Whole program"), scrolled(codeView(c.program)))]
        : [el("h4", {}, "Program"), scrolled(codeView(c.program))],
        c.completion ? el("details", {}, el("summary", {}, "What was written, as sampled"), scrolled(codeView(c.completion))) : null)));
}

function chip(text, kind) {
  return el("span", {class: `chip ${["good", "bad", "supporter"].includes(kind) ? kind : ""}`}, text);
}

function scrolled(...content) {
  return el("div", {class: "scroll code-box", tabindex: 0}, content);
}

function facts(c, parent) {
  const step = c.score !== null && parent && parent.score !== null ? c.score - parent.score : null;
  const rows = [
    ["Score", number(c.score, 5)], ["Step from parent", signed(step, 5)], ["Round, island", `${c.round}, ${c.island}`],
    ["Written by", c.origin], ["Style", c.style || "–"], ["Rewritten at", c.hole || "–"],
    ["Feedback", c.detail || c.diagnosis || (c.status === "ok" ? "ran to the end" : c.status)],
    ["Seen before", c.copy ? "equals its parent" : c.duplicate >= 0 ? "yes, the score was reused" : "no"],
    ...c.metrics.map(([name, value]) => [name, number(value)]),
  ];
  return el("dl", {class: "facts"}, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function relatives(run, c, parent, select) {
  const link = (index) => el("button", {type: "button", class: "link", onclick: () => select(index)}, run.candidates.id[index]);
  const score = (i) => run.candidates.score[i] ?? -Infinity;
  const children = [...run.children[c.index]].sort((a, b) => score(b) - score(a));
  return el("p", {class: "relatives"},
    parent ? ["Parent ", link(c.parent), ". "] : null,
    children.length ? [`${children.length} children, best first: `, children.slice(0, 8).map((i) => [link(i), " "])] : "No children.");
}
