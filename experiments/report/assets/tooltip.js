// One line about the candidate under the pointer; spread the result into the attributes of a group of marks.

const tip = el("div", {class: "tooltip", hidden: true});
document.body.append(tip);

function tooltip(run) {
  return {
    onmouseover: (event) => {
      const index = event.target.dataset.index;
      if (index === undefined) return;
      const c = run.candidates, score = c.score[index], place = event.target.getBoundingClientRect();
      tip.textContent = visible(`${c.id[index]}: ${score === null ? c.names[c.status[index]] : number(score)} · ${c.names[c.hole[index]] || c.names[c.origin[index]]}`);
      tip.hidden = false;
      tip.style.top = `${place.bottom + window.scrollY + 6}px`;
      tip.style.left = `${Math.max(4, Math.min(place.left + window.scrollX, document.body.clientWidth - tip.offsetWidth - 8))}px`;
    },
    onmouseout: () => { tip.hidden = true; },
  };
}
