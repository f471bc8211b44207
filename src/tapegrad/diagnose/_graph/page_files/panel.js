// The side panel: everything about the selected item. Text is only ever set as text.

function el(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name === "onclick") element.onclick = value;
    else element.setAttribute(name, value);
  }
  element.append(...filled(...children.flat(3)));
  return element;
}

const dim = (text) => el("p", { class: "dim" }, text);
const code = (text) => text && el("pre", { class: "code" }, text);
const listText = (shape) => shape && `[${shape.join(", ")}]`;

// Numbers that JSON has not are given as strings: NaN, Infinity.
function number(value) {
  if (typeof value !== "number") return String(value ?? "");
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(5)));
}

function bytesText(bytes) {
  const power = bytes ? Math.floor(Math.log2(bytes) / 10) : 0;
  const count = (bytes || 0) / 1024 ** power; // as the text has it
  return `${power ? count.toFixed(1) : count} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

function row(cells, bad) {
  const [name, ...rest] = cells;
  return el("tr", null, el("th", { scope: "row" }, name),
    rest.map((cell) => el("td", bad ? { class: "bad" } : null, cell)));
}

function table(rows) {
  const kept = rows.filter(([, value]) => filled(value).length);
  return kept.length ? el("table", null, kept.map((cells) => row(cells))) : null;
}

function section(title, ...body) {
  const kept = filled(...body.flat(3));
  return kept.length ? [el("h3", null, title), ...kept] : [];
}

function statistics(stats) {
  const bad = (name, value) => typeof value === "string" || (/nan|inf/.test(name) && value > 0);
  const known = Object.entries(stats || {}).filter(([, value]) => typeof value !== "object");
  const rows = known.map(([name, value]) => row([name, number(value)], bad(name, value)));
  return rows.length ? el("table", null, rows) : null;
}

// Numbers as tables: a scalar, a row, a matrix, or matrices one after another.
function matrix(values, label = "") {
  if (values == null) return null;
  if (Array.isArray(values[0]?.[0])) {
    return values.map((part, i) => matrix(part, `${label}[${i}]`));
  }
  const lines = Array.isArray(values[0]) ? values : [[values].flat()];
  const cell = (v) => el("td", typeof v === "string" ? { class: "bad" } : null, number(v));
  const rows = lines.map((line) => el("tr", null, line.map(cell)));
  const table = el("table", { class: "matrix" }, rows);
  return el("div", { class: "scroll" }, label && dim(label), table);
}

function itemLink(item, note) {
  const { node } = item, named = node && isSource(item) && node.name;
  const title = node ? named || node.op : titleOf(item);
  const facts = node && filled(named ? "" : node.name, shapeText(node.shape)).join(" ");
  const more = el("span", null, ` ${note ?? facts ?? ""}`);
  return el("button", { class: "link", onclick: () => goTo(item) }, title, more);
}

function links(items, most = 12) {
  const unique = [...new Set(items)], more = unique.length - most;
  return [unique.slice(0, most).map((item) => itemLink(item)), more > 0 && dim(`and ${more} more`)];
}

function source({ file, line, text }) {
  return file ? [dim(line ? spotOf(file, line) : file), code(text?.trim())] : null;
}

function nodePanel(item) {
  const { node } = item, kind = kindOf(item), failed = node.id === data.failed;
  const saved = (node.saved || []).map(({ name, shape, dtype, bytes, shared }) =>
    [name, listText(shape), dtype, bytesText(bytes) + (shared === undefined ? ""
      : ` (${typeof shared === "number" ? `counted at ${byId.get(shared)?.node.op}` : shared})`)]);
  const at = stepOf.get(node.id), badge = { class: "badge", style: `color: var(--${kind})` };
  return [
    el("h2", null, node.op),
    el("p", null, el("span", badge, KINDS[kind] || kind),
      failed && el("span", { class: "badge bad" }, "failed here")),
    table([["name", node.name], ["shape", listText(node.shape)], ["dtype", node.dtype],
      ["module", node.module], ["", node.module_type]]),
    failed && code(data.error),
    section("Source", source(node)),
    section("Formula", code(node.formula)),
    section("Saved for backward", node.bytes || saved.length ? bytesText(node.bytes) : null,
      node.freed && dim("freed by a backward pass"),
      saved.length > 0 && el("div", { class: "scroll" }, table(saved))),
    section("Value", statistics(node.summary)),
    section("Gradient", statistics(node.grad)),
    section("Attributes", table(Object.entries(node.attrs || {}))),
    section("Made from", links(item.uses)),
    section("Used by", links(item.made)),
    at >= 0 && el("button", { onclick: () => setStep(at) }, `Go to its backward step (${at + 1})`),
  ];
}

function groupPanel(group) {
  const ops = [...group.ops].sort((a, b) => b[1] - a[1]).slice(0, 12);
  return [
    el("h2", null, titleOf(group)),
    dim(filled(group.path.trim(), group.type).join(" \u00b7 ")),
    el("button", { onclick: () => toggle(group) }, group.open ? "Collapse" : "Expand"),
    table([["nodes", group.count.toLocaleString("en")], ["saved", bytesText(group.bytes)]]),
    section("Operations", table(ops.map(([op, n]) => [op, `\u00d7 ${n}`]))),
    section("Modules", links(group.children.filter((child) => !child.node), 24)),
  ];
}

function overview() {
  const heavy = nodes.filter(({ node }) => node.bytes).sort((a, b) => b.node.bytes - a.node.bytes);
  const place = ({ file, line }) => file && spotOf(baseName(file), line);
  const note = ({ node }) => filled(bytesText(node.bytes), place(node)).join("  ");
  return [
    el("h2", null, data.title),
    dim("Values flow down to the root, gradients back up. Click a node for its details, "
      + "a + to open a module."),
    table([["nodes", nodeCount.toLocaleString("en")],
      ["edges", data.edges.length.toLocaleString("en")],
      ["not drawn", data.more ? `${plural(data.more, "node")} beyond the limit` : ""],
      ["parameters", nodes.filter((item) => kindOf(item) === "param").length || ""],
      ["saved", bytesText(data.bytes ?? root.bytes)]]),
    section("Root", links((data.root || []).map((id) => byId.get(id)))),
    section("Most memory", heavy.slice(0, 6).map((item) => itemLink(item, note(item)))),
    section("Modules", links(root.children.filter((child) => !child.node))),
  ];
}

function showDetails() {
  const { selected, play, tab } = page, step = play && tab === "step";
  const body = step ? stepPanel() : !selected ? overview()
    : selected.node ? nodePanel(selected) : groupPanel(selected);
  $("details").replaceChildren(...filled(...body.flat(3)));
  $("details").scrollTop = 0;
  $("tab-step").setAttribute("aria-selected", step);
  $("tab-node").setAttribute("aria-selected", !step);
}

function showLegend() {
  const kinds = new Set(nodes.map(kindOf));
  const entries = Object.entries(KINDS).filter(([kind]) => kinds.has(kind) && !page.play);
  if (page.play) {
    entries.push(["run", "running"], ["done-fill", "done"]);
    entries.push(["", "\u03a3 2/3: two of three gradients added"]);
  }
  if (byId.has(data.failed)) entries.push(["failed", "failed here"]);
  const down = "\u2193 values flow down, gradients back up";
  entries.push(["", page.play ? "\u2191 gradients flow up" : down]);
  $("legend").replaceChildren(...entries.map(([name, text]) =>
    el("li", null, name && el("i", { style: `background: var(--${name})` }), text)));
}
