// Puts the page together; `show` is called again when another run is chosen or news has come.

const page = document.getElementById("page");
const state = {run: 0, selected: null};

function show(data) {
  const runs = data.runs.map((run) => new Run(run));
  const run = runs[Math.min(state.run, runs.length - 1)];
  const chosen = () => state.selected !== null && run.position.has(state.selected) ? run.position.get(state.selected) : run.bestIndex;
  const detail = el("div");
  const lineage = new Lineage(run, select);

  function select(index) {
    if (index < 0) return;
    state.selected = run.candidates.id[index];
    lineage.choose(index);
    detail.replaceChildren(candidateView(run, index, select));
  }

  const several = runs.length > 1;
  const tree = run.initial ? lineage.view() : null;
  if (tree) tree.append(detail);
  const sections = [
    several && data.bands.length ? comparison(data.bands) : null, overview(run), learning(run), scores(run, open), tree, gate(run),
    run.initial ? supporters(run) : null, islands(run), pictures(run), tables(data.tables),
  ].filter(Boolean);

  function open(index) {
    select(index);
    tree.scrollIntoView();
  }

  page.replaceChildren(header(data, runs), el("nav", {"aria-label": "Sections"}, sections.map((part) =>
    el("a", {href: `#${part.id}`}, part.id === "overview" ? "Run" : part.id[0].toUpperCase() + part.id.slice(1)))),
  el("main", {}, sections));
  if (chosen() >= 0) select(chosen());
}

function header(data, runs) {
  const choice = el("select", {"aria-label": "Run", onchange: (event) => {
    Object.assign(state, {run: Number(event.target.value), selected: null});
    show(data);
  }}, runs.map((run, i) => el("option", {value: i, selected: i === state.run}, run.name)));
  return el("header", {}, el("h1", {}, "ATLAS Gym ", el("small", {}, "run report")),
    el("p", {}, runs.length > 1 ? choice : `${runs[0].env} · ${runs[0].method} · seed ${runs[0].seed ?? "–"}`, ` · ${data.made}`));
}

show(JSON.parse(document.getElementById("data").textContent));
