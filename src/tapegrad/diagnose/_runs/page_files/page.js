const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const PHASES = { forward: "→", backward: "←", optimizer: "↻" };
const steps = Object.keys(data.steps).map(Number).sort((x, y) => x - y);
const first = data.cause ? data.cause.step : steps[0];

function number(x) {
  return typeof x === "number" ? Number(x.toPrecision(6)).toString() : String(x);
}

function verdict() {
  const box = byId("verdict");
  box.append(make("h2", data.same ? "same" : "parted", data.headline));
  data.about.forEach((text, i) => box.append(make("p", "dim", "ab"[i] + "  " + text)));
  const facts = [data.random.text];
  const p = data.parameters;
  if (p.count) {
    facts.push(p.differ.length ? `${p.differ.length} of ${p.count} parameters differ at their ` +
      `first use: ${p.differ.slice(0, 4).join(", ")}` :
      `all ${p.count} parameters are the same at their first use`);
  }
  if (data.batches) facts.push(data.batches);
  box.append(make("p", "", facts.join(" · ")));
  for (const pair of data.cause ? data.cause.notes : []) {
    pair.forEach((note, i) => {
      if (note) box.append(make("p", "", `${"ab"[i]}  ${note.line}  ${note.text}`));
    });
  }
}

function growth() {
  const figure = byId("growth");
  const points = data.growth.filter((g) => g.largest > 0);
  if (!points.length) {
    figure.hidden = true;
    return;
  }
  const W = 1000, H = 120, left = 60, bottom = 20;
  const logs = points.map((g) => Math.log10(g.largest));
  const low = Math.floor(Math.min(...logs)), high = Math.max(Math.ceil(Math.max(...logs)), low + 1);
  const last = Math.max(data.growth.length - 1, 1);
  const x = (s) => left + (W - left - 20) * s / last;
  const y = (v) => 10 + (H - bottom - 10) * (high - Math.log10(v)) / (high - low);
  const svg = (tag, attributes, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img" });
  const ticks = Math.max(1, Math.ceil((high - low) / 4));
  for (let e = low; e <= high; e += ticks) {
    root.append(svg("line", { class: "axis", x1: left, x2: W - 20, y1: y(10 ** e), y2: y(10 ** e) }));
    root.append(svg("text", { x: left - 8, y: y(10 ** e) + 4, "text-anchor": "end" }, `1e${e}`));
  }
  root.append(svg("text", { x: left, y: H - 4 },
    "largest relative difference of any result, by step"));
  root.append(svg("text", { x: W - 20, y: H - 4, "text-anchor": "end" }, `step ${last}`));
  root.append(svg("path", {
    d: points.map((g, i) => `${i ? "L" : "M"}${x(g.step)} ${y(g.largest)}`).join(""),
  }));
  for (const g of points) {
    const dot = svg("circle", {
      class: g.step === first ? "dot first" : "dot", cx: x(g.step), cy: y(g.largest),
      r: points.length > 200 ? 1.5 : 4,
    });
    dot.append(svg("title", {}, `step ${g.step}: ${number(g.largest)}`));
    dot.addEventListener("click", () => show(g.step));
    root.append(dot);
  }
  figure.append(root);
}

function cell(op) {
  const e = make("div", op ? "present" : "");
  if (!op) return e;
  e.append(make("span", "phase", PHASES[op.phase]));
  e.append(make("b", "", op.op));
  if (op.arguments) e.append(make("span", "dim", `(${op.arguments})`));
  if (op.module) e.append(make("span", "module", "  " + op.module));
  if (op.at) e.append(make("span", "at", `  ${op.at}  ${op.text}`));
  e.title = `${op.at}  ${op.text}`;
  return e;
}

const SIGNS = { same: "=", differs: "≠", alone: "+", harmless: "·" };

function show(step) {
  if (!(step in data.steps)) step = first;
  byId("step").value = step;
  const box = byId("rows");
  const only = byId("only").checked;
  box.replaceChildren();
  const head = make("div", "row head");
  head.append(make("div", "dim", "a"), make("div", "sign", ""), make("div", "dim", "b"));
  box.append(head);
  for (const row of data.steps[step]) {
    if (only && !row.cause && (row.state === "same" || row.state === "harmless")) continue;
    const e = make("div", `row ${row.state}${row.cause ? " cause" : ""}`);
    e.append(cell(row.a), make("div", "sign", SIGNS[row.state]), cell(row.b));
    e.addEventListener("click", () => choose(row, e));
    box.append(e);
    if (row.cause && !box.querySelector(".chosen")) choose(row, e);
  }
  const cause = box.querySelector(".cause");
  if (cause) cause.scrollIntoView({ block: "center" });
}

function choose(row, e) {
  for (const old of document.querySelectorAll(".chosen")) old.classList.remove("chosen");
  e.classList.add("chosen");
  const box = byId("details");
  const op = row.a || row.b;
  box.replaceChildren(make("h2", "", op.op), make("p", "dim", op.module || op.phase));
  if (row.cause) box.append(make("p", "bad", "the first difference"));
  if (row.gap) box.append(make("p", "", `the results differ by ${row.gap}`));
  for (const side of ["a", "b"]) {
    if (!row[side]) {
      box.append(make("p", "dim", `${side}: no such op`));
      continue;
    }
    box.append(make("h3", "", `${side}  ${row[side].at}`), make("div", "code", row[side].text));
  }
  for (const [name, key] of [["Read", "read"], ["Made", "made"]]) {
    const count = Math.max(...["a", "b"].map((s) => row[s] ? row[s][key].length : 0));
    if (count) box.append(make("h3", "", name));
    for (let i = 0; i < count; i++) values(box, row, key, i);
  }
}

function values(box, row, key, i) {
  const table = make("table");
  const names = ["", "what", "smallest", "largest", "mean", "norm", "not finite", "hash"];
  const pair = ["a", "b"].map((s) => row[s] ? row[s][key][i] : undefined);
  names.forEach((name, k) => {
    const tr = make("tr");
    tr.append(make("th", "", name));
    pair.forEach((v, s) => {
      let text = "";
      if (k === 0) text = "ab"[s];
      else if (v === null) text = k === 1 ? "no gradient" : "";
      else if (v) {
        text = [null, `${v[0]} ${v[1]}${v[2] ? " " + v[2] : ""}`, number(v[3]), number(v[4]),
          number(v[5]), number(v[6]), String(v[7] + v[8]), v[9].slice(0, 8)][k];
      }
      const td = make("td", k === 0 ? "side" : "", text);
      const other = pair[1 - s];
      if (k === 7 && v && other && v[9] !== other[9]) td.classList.add("bad");
      tr.append(td);
    });
    table.append(tr);
  });
  box.append(table);
}

for (const step of steps) {
  const option = make("option", "", step === first && data.cause ? `${step} (first)` : step);
  option.value = step;
  byId("step").append(option);
}
byId("step").addEventListener("change", (e) => show(Number(e.target.value)));
byId("only").addEventListener("change", () => show(Number(byId("step").value)));
byId("jump").addEventListener("click", () => show(first));
byId("jump").hidden = !data.cause;
verdict();
growth();
if (steps.length) show(first);
