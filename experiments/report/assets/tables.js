// The tables, as they are in the files beside this page.

function tables(list) {
  if (!list.length) return null;
  return section("tables", "Tables", "The same tables lie beside this page as CSV and Markdown.",
    list.map((table) => el("div", {class: "scroll", tabindex: 0}, el("table", {class: "plain"},
      el("caption", {}, table.title),
      el("thead", {}, el("tr", {}, table.columns.map((name) => el("th", {scope: "col"}, name)))),
      el("tbody", {}, table.rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))),
    table.note ? el("p", {class: "note"}, table.note) : null)));
}
