// Making elements. Text reaches the page through textContent only, so nothing a run holds is ever markup.

const SVG = "http://www.w3.org/2000/svg";

// el("button", {class: "x", onclick: f}, "text", child, [more]): attributes, `on…` listeners, children.
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(String(child)));
  }
  return node;
}

// Control characters, direction marks and the like are shown as escapes: what is on screen is what was written.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/gu;

function visible(text) {
  return text.replace(INVISIBLE, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-4)
    ? value.toExponential(2) : value.toFixed(digits);
  return text.replace("-", "−");
}

function signed(value, digits = 4) {
  return value === null || value === undefined ? "–" : (value > 0 ? "+" : "") + number(value, digits);
}

function percent(value, digits = 0) {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : number(100 * value, digits) + " %";
}

// A card of the page; `draw(width)` returns its content and is called again when the width changes.
function section(id, title, lead, ...content) {
  return el("section", {id, "aria-labelledby": `${id}-title`},
    el("h2", {id: `${id}-title`}, title), lead ? el("p", {class: "lead"}, lead) : null, content);
}

function responsive(draw) {
  const box = el("div", {class: "chart"});
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== drawn) {
      drawn = width;
      box.replaceChildren(draw(width));
    }
  }).observe(box);
  return box;
}
