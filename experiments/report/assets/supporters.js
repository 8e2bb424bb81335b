// What the supporters were asked, what they said, and what came of it.

const ROLES = ["exploration", "strategist", "inspector"];
const SUMMARY_CHARS = 140;

function supporters(run) {
  if (!run.supporters.length) {
    return section("supporters", "Supporters' interventions", "No supporter was consulted in this run.");
  }
  const list = el("div", {class: "calls"});
  const show = (role) => list.replaceChildren(...run.supporters.filter((call) => !role || call.role === role).map(callView));
  const choice = el("select", {onchange: (event) => show(event.target.value)},
    el("option", {value: ""}, "all roles"), ROLES.map((role) => el("option", {value: role}, role)));
  show("");
  return section("supporters", "Supporters' interventions",
    "Each consultation: filled if it was answered, hollow if it was skipped, ringed if the strategist changed a setting.",
    responsive((width) => timeline(run, width)),
    el("div", {class: "controls"}, el("label", {}, "Show ", choice)), list);
}

function timeline(run, width) {
  const roles = ROLES.filter((role) => run.supporters.some((call) => call.role === role));
  const chart = new Chart(width, 60 + 34 * roles.length, {domain: [0, run.rounds], label: "round"},
    {domain: [-0.6, roles.length - 0.4], label: "", format: () => ""}, "Consultations by round");
  roles.forEach((role, k) => chart.add(svg("text", {x: 2, y: chart.y(k) + 4, class: "hint"}, role)));
  const before = new Map();
  for (const call of run.supporters) {
    // Several islands may ask in one round: side by side.
    const place = `${call.role}/${call.round}`, nth = before.get(place) ?? 0;
    before.set(place, nth + 1);
    chart.add(svg("circle", {cx: chart.x(call.round ?? 0) + 5 * (nth % 8), cy: chart.y(roles.indexOf(call.role)), r: 5,
      class: `call ${call.status === "ok" ? "answered" : "skipped"} ${call.changed.length ? "changed" : ""}`}));
  }
  return chart.root;
}

function shortened(text) {
  return text.length > SUMMARY_CHARS ? `${text.slice(0, SUMMARY_CHARS)}…` : text;
}

function callView(call) {
  const when = call.phase === null ? `round ${call.round}` : `round ${call.round}, phase ${call.phase}`;
  return el("details", {}, el("summary", {}, chip(call.role, ""), ` ${when} · ${call.form ?? ""} ${call.model ?? ""} · `,
    call.status === "ok" ? shortened(call.outcome || "no advice") : `skipped: ${call.reason}`),
  el("p", {}, `Took ${number(call.seconds ?? 0, 2)} s.`, call.reason ? ` ${call.reason}` : ""),
  call.outcome.length > SUMMARY_CHARS ? el("p", {}, call.outcome) : null,
  call.reply ? el("pre", {}, call.reply) : el("p", {}, "There is no reply to show."));
}
