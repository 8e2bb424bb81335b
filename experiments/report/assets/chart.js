// A frame with two axes to draw into. Colours come from classes, so charts follow the light and dark style.

const MARGIN = {top: 14, right: 16, bottom: 40, left: 72};

class Chart {
  // x and y: {domain: [low, high], label, format, whole (ticks at whole numbers only)}
  constructor(width, height, x, y, label) {
    this.width = width;
    this.height = height;
    this.x = scale(x.domain, [MARGIN.left, width - MARGIN.right]);
    this.y = scale(y.domain, [height - MARGIN.bottom, MARGIN.top]);
    this.root = svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
    this.root.append(this.axisX(x), this.axisY(y));
    this.plot = svg("g");
    this.root.append(this.plot);
  }

  axisX({domain, label, format = String, whole = true}) {
    const bottom = this.height - MARGIN.bottom, group = svg("g", {class: "axis"});
    for (const tick of ticks(domain, Math.max(2, Math.floor(this.width / 110)), whole)) {
      const x = this.x(tick);
      group.append(svg("line", {x1: x, x2: x, y1: bottom, y2: bottom + 4}),
        svg("text", {x, y: bottom + 17, "text-anchor": "middle"}, format(tick)));
    }
    group.append(svg("line", {x1: MARGIN.left, x2: this.width - MARGIN.right, y1: bottom, y2: bottom}));
    group.append(svg("text", {x: (MARGIN.left + this.width - MARGIN.right) / 2, y: this.height - 5,
      "text-anchor": "middle", class: "label"}, label));
    return group;
  }

  axisY({domain, label, format = (value) => number(value, 3), whole = false}) {
    const group = svg("g", {class: "axis"});
    for (const tick of ticks(domain, 5, whole)) {
      const y = this.y(tick);
      group.append(svg("line", {x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y, class: "grid"}),
        svg("text", {x: MARGIN.left - 7, y: y + 4, "text-anchor": "end"}, format(tick)));
    }
    const middle = (MARGIN.top + this.height - MARGIN.bottom) / 2;
    group.append(svg("text", {x: 11, y: middle, transform: `rotate(-90 11 ${middle})`, "text-anchor": "middle",
      class: "label"}, label));
    return group;
  }

  add(...nodes) {
    this.plot.append(...nodes);
    return this;
  }

  line(points, attributes) {
    return svg("path", {d: path(points.map(([x, y]) => [this.x(x), this.y(y)])), fill: "none", ...attributes});
  }

  // Constant from each point to the next.
  steps(points, attributes) {
    const corners = points.flatMap(([x, y], i) => (i ? [[x, points[i - 1][1]], [x, y]] : [[x, y]]));
    return this.line(corners, attributes);
  }

  area(xs, low, high, attributes) {
    const there = xs.map((x, i) => [this.x(x), this.y(high[i])]);
    const back = xs.map((x, i) => [this.x(x), this.y(low[i])]).reverse();
    return svg("path", {d: path([...there, ...back]) + "Z", ...attributes});
  }

  rect(x0, x1, y0, y1, attributes) {
    const left = this.x(x0), top = this.y(y1);
    return svg("rect", {x: left, y: top, width: Math.max(0, this.x(x1) - left),
      height: Math.max(0, this.y(y0) - top), ...attributes});
  }
}

function scale([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((Math.min(Math.max(value, low), high) - low) / span) * (to - from);
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function ticks([low, high], count, whole) {
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(whole ? 1 : 0, [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw));
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(k * step);
  return values;
}

function padded([low, high], share = 0.06) {
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}

function legend(entries) {
  return el("ul", {class: "legend"}, entries.map(([shape, text]) =>
    el("li", {}, el("span", {class: `key ${shape}`, "aria-hidden": "true"}), text)));
}
