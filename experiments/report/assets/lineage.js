// The lineage: a column per round, a lane per island, in every cell the programs from best to worst, and a curve
// from each parent to its children.

const NODE = 4.4, GAP = 11, LANE_PAD = 14, HEAD = 22, TALLEST = 190;

class Lineage {
  constructor(run, select) {
    this.run = run;
    this.select = select;
    this.selected = -1;
    this.show = {failed: true, repeats: false};
    this.box = el("div", {class: "chart"});
    this.width = 0;
    new ResizeObserver(() => {
      const width = Math.floor(this.box.clientWidth);
      if (width > 0 && width !== this.width) { this.width = width; this.draw(); }
    }).observe(this.box);
  }

  view() {
    const toggle = (key, text) => el("label", {}, el("input", {type: "checkbox", checked: this.show[key],
      onchange: (event) => { this.show[key] = event.target.checked; this.draw(); }}), text);
    const go = (text, index) => el("button", {type: "button", onclick: () => this.select(index)}, text);
    return section("lineage", "Lineage",
      "A column per round, a lane per island; in each cell the best program is on top. Click a program to see what it " +
      "changed, or walk with the arrow keys: left to its parent, right to its best child." + selection(this.run),
      el("div", {class: "controls"}, go("Best program", this.run.bestIndex), go("Initial program", 0),
        go("Largest step", this.largestStep()), toggle("failed", "failed"), toggle("repeats", "copies and repeats")),
      this.box,
      legend([["node scale-0", "low score"], ["node scale-3", ""], ["node scale-6", "high score"], ["node failed", "failed"],
        ["line ancestry", "ancestors of the selected program"], ["line best", "ancestors of the best"]]));
  }

  largestStep() {
    const {score, parent} = this.run.candidates;
    let best = 0, step = -Infinity;
    score.forEach((value, i) => {
      const before = parent[i] >= 0 ? score[parent[i]] : null;
      if (value !== null && before !== null && value - before > step) [best, step] = [i, value - before];
    });
    return best;
  }

  // Which candidates are drawn, by cell: "round/island" → indices from best to worst.
  cells() {
    const c = this.run.candidates, cells = new Map(), ancestry = new Set(this.run.ancestors(this.selected));
    for (let i = 0; i < this.run.size; i++) {
      const failed = c.score[i] === null, repeat = c.copy[i] === 1 || (c.duplicate[i] >= 0 && c.round[i] > 0);
      const wanted = (this.show.failed || !failed) && (this.show.repeats || !repeat);
      if (!wanted && !ancestry.has(i) && i !== this.run.bestIndex) continue;
      const key = `${c.round[i]}/${c.island[i]}`;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(i);
    }
    for (const cell of cells.values()) cell.sort((a, b) => (c.score[b] ?? -Infinity) - (c.score[a] ?? -Infinity) || a - b);
    return cells;
  }

  place() {
    const c = this.run.candidates, cells = this.cells();
    const most = Math.max(1, ...[...cells.values()].map((cell) => cell.length));
    const gap = Math.min(GAP, TALLEST / most), lane = most * gap + LANE_PAD;
    const islands = this.run.coverage.islands, rounds = this.run.rounds;
    const labels = 46, column = Math.max(24, (this.width - labels - 24) / (rounds + 1));
    const at = new Map();
    for (const cell of cells.values()) {
      cell.forEach((i, k) => at.set(i, [12 + column * c.round[i],
        HEAD + lane * islands.indexOf(c.island[i]) + LANE_PAD / 2 + gap * (k + 0.5)]));
    }
    return {at, lane, gap, column, labels, width: 24 + column * (rounds + 1), height: HEAD + lane * islands.length};
  }

  draw() {
    const layout = this.layout = this.place(), scroll = this.scroller ? this.scroller.scrollLeft : 0;
    const root = svg("svg", {width: layout.width, height: layout.height, class: "lineage", tabindex: 0, role: "group",
      "aria-label": "Lineage of programs; arrow keys walk along it",
      onclick: (event) => { if (event.target.dataset.index) this.select(Number(event.target.dataset.index)); },
      onkeydown: (event) => this.walk(event)});
    root.append(this.grid(layout), this.edges(layout));
    this.marks = svg("g");
    root.append(this.marks, this.nodes(layout));
    this.scroller = el("div", {class: "scroll"}, root);
    const names = svg("svg", {width: layout.labels, height: layout.height, "aria-hidden": "true"},
      this.run.coverage.islands.map((island, k) => svg("text", {x: 0, y: HEAD + layout.lane * (k + 0.5) + 4,
        class: "hint"}, `isl. ${island}`)));
    this.box.replaceChildren(el("div", {class: "lanes"}, names, this.scroller));
    this.scroller.scrollLeft = scroll;
    this.mark();
    this.reveal();
  }

  grid({lane, column, width, height}) {
    const group = svg("g", {class: "axis"});
    this.run.coverage.islands.forEach((_, k) => {
      if (k % 2 === 0) group.append(svg("rect", {x: 0, y: HEAD + k * lane, width, height: lane, class: "band"}));
    });
    const every = Math.ceil(34 / column);
    for (let round = 0; round <= this.run.rounds; round += every) {
      group.append(svg("text", {x: 12 + column * round, y: 13, "text-anchor": "middle"}, round));
    }
    for (const phase of this.run.tuned) {
      const x = 12 + column * (phase.round + 0.5);
      group.append(svg("g", {class: phase.promoted ? "promoted" : "kept"},
        svg("line", {x1: x, x2: x, y1: HEAD - 4, y2: height})));
    }
    return group;
  }

  edges({at}) {
    const {parent} = this.run.candidates;
    const curves = [...at.keys()].filter((i) => at.has(parent[i])).map((i) => curve(at.get(parent[i]), at.get(i)));
    return svg("path", {class: "edges", d: curves.join(""), fill: "none"});
  }

  nodes({at, gap}) {
    const c = this.run.candidates, range = scoreRange(this.run), group = svg("g", {class: "nodes", ...tooltip(this.run)});
    const radius = Math.min(NODE, gap * 0.42);
    for (const [i, [x, y]] of at) {
      group.append(svg("circle", {cx: x.toFixed(1), cy: y.toFixed(1), r: radius, "data-index": i,
        class: `${scoreClass(c.score[i], range)} ${c.names[c.origin[i]] === "supporter" ? "helped" : ""}`}));
    }
    return group;
  }

  mark() {
    if (!this.layout) return;
    const chain = (index, name) => svg("path", {class: `series ${name}`, fill: "none", d: this.links(index).join("")});
    this.marks.replaceChildren(chain(this.run.bestIndex, "best"), chain(this.selected, "ancestry"));
    const here = this.layout.at.get(this.selected);
    if (here) this.marks.append(svg("circle", {cx: here[0], cy: here[1], r: NODE + 3.5, class: "selected"}));
  }

  links(index) {
    const {at} = this.layout, chain = this.run.ancestors(index);
    return chain.slice(1).map((parent, k) => [parent, chain[k]]).filter(([p, i]) => at.has(p) && at.has(i))
      .map(([p, i]) => curve(at.get(p), at.get(i)));
  }

  choose(index) {
    this.selected = index;
    if (!this.width) return;
    // A hidden ancestor is drawn while its descendant is looked at.
    if (this.run.ancestors(index).some((i) => !this.layout.at.has(i))) this.draw(); else this.mark();
    this.reveal();
  }

  reveal() {
    const place = this.layout.at.get(this.selected);
    if (!place) return;
    const {scrollLeft, clientWidth} = this.scroller;
    if (place[0] < scrollLeft + 20 || place[0] > scrollLeft + clientWidth - 20) {
      this.scroller.scrollLeft = place[0] - clientWidth / 2;
    }
  }

  walk(event) {
    const target = this.neighbour(event.key);
    if (target === undefined) return;
    event.preventDefault();
    if (target >= 0) this.select(target);
  }

  neighbour(key) {
    const {at} = this.layout, {parent, score, round} = this.run.candidates, i = this.selected;
    const shown = (k) => at.has(k);
    if (key === "ArrowLeft") return parent[i];
    if (key === "ArrowRight") {
      return this.run.children[i].filter(shown).sort((a, b) => (score[b] ?? -Infinity) - (score[a] ?? -Infinity))[0] ?? -1;
    }
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const column = [...at.keys()].filter((k) => round[k] === round[i]).sort((a, b) => at.get(a)[1] - at.get(b)[1]);
    return column[column.indexOf(i) + (key === "ArrowDown" ? 1 : -1)] ?? -1;
  }
}

function curve([x0, y0], [x1, y1]) {
  const bend = Math.max(8, (x1 - x0) / 2);
  return `M${x0.toFixed(1)} ${y0.toFixed(1)}C${(x0 + bend).toFixed(1)} ${y0.toFixed(1)} ` +
    `${(x1 - bend).toFixed(1)} ${y1.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
}
