// What the user does.

const page = {
  selected: null, hover: null, tab: "node", play: null, timer: 0,
  hits: [], hitItems: new Set(), hit: -1,
};
let frame = 0;

function redraw() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    draw();
  });
}

function relayout() {
  page.picture = layOut();
  if (page.play) page.play = replay(page.play.at);
  page.hitItems = new Set(page.hits.map((item) => item.rep));
  redraw();
}

// --- the view ---

function resize() {
  const { clientWidth: w, clientHeight: h } = $("stage"), ratio = devicePixelRatio || 1;
  view.x += view.w ? (w - view.w) / 2 : 0;
  view.y += view.h ? (h - view.h) / 2 : 0;
  Object.assign(view, { w, h });
  Object.assign(canvas, { width: Math.max(1, w * ratio), height: Math.max(1, h * ratio) });
  if (page.picture) draw();
}

const fitScale = () => Math.min(1.2, (view.w - 30) / root.w, (view.h - 30) / root.h);

function zoom(factor, x = view.w / 2, y = view.h / 2) {
  const k = Math.min(4, Math.max(Math.min(0.05, fitScale()), view.k * factor));
  view.x = x - ((x - view.x) * k) / view.k;
  view.y = y - ((y - view.y) * k) / view.k;
  view.k = k;
  redraw();
}

function centre(item, k, down = view.h / 2) {
  const x = view.w / 2 - (item.x + item.w / 2) * k, y = down - (item.y + item.h / 2) * k;
  Object.assign(view, { k, x, y });
  redraw();
}

const fit = () => centre(root, fitScale());

function keepInView(item) {
  const { k, x, y, w, h } = view, left = item.x * k + x, top = item.y * k + y;
  const inside = left > 0 && top > 0 && left + item.w * k < w && top + item.h * k < h;
  if (!inside || k < 0.45) centre(item, Math.max(k, 0.8));
}

// All of it where that can be read; else the failed node, or the root, at a readable size.
function startView() {
  const failed = byId.get(data.failed), last = byId.get(data.root?.[0]);
  const k = fitScale(), readable = Math.min(1, Math.max(k, 0.85));
  if (failed) centre(failed.rep, readable);
  else if (k >= 0.66 || !last) fit();
  else centre(last.rep, readable, view.h - 50 * readable);
}

// --- selecting, opening, searching ---

function select(item) {
  Object.assign(page, { selected: item, tab: "node" });
  if (item) $("panel").hidden = false;
  showDetails();
  $("live").textContent = !item ? "" : item.node
    ? filled(item.node.op, item.node.name, shapeText(item.node.shape), item.node.module).join(", ")
    : `module ${titleOf(item)}, ${plural(item.count, "node")}, ${item.open ? "open" : "closed"}`;
  redraw();
}

function goTo(item) {
  if (reveal(item)) relayout();
  select(item);
  keepInView(item);
}

function toggle(group, open = !group.open) {
  const { x, y, w } = group;
  group.open = open;
  relayout();
  // The box stays where the eye is.
  view.x += (x + w / 2 - group.x - group.w / 2) * view.k;
  view.y += (y - group.y) * view.k;
  select(group);
}

function openAll(open) {
  for (const group of groups) group.open = open || group === root;
  relayout();
  select(null);
  startView();
}

function find(query) {
  Object.assign(page, { hits: search(query), hit: -1 });
  page.hitItems = new Set(page.hits.map((item) => item.rep));
  $("hits").textContent = query.trim() ? plural(page.hits.length, "hit") : "";
  redraw();
}

function nextHit(step) {
  const { length } = page.hits;
  if (!length) return;
  page.hit = page.hit < 0 ? (step > 0 ? 0 : length - 1) : (page.hit + step + length) % length;
  goTo(page.hits[page.hit]);
  $("hits").textContent = `${page.hit + 1} / ${length}`;
}

// --- pointer ---

const pointers = new Map();
let dragged = 0, apart = 0;

const worldAt = ({ offsetX, offsetY }) =>
  ({ x: (offsetX - view.x) / view.k, y: (offsetY - view.y) / view.k, w: 0, h: 0 });

function itemAt(point) {
  const { items, clusters } = page.picture, under = (item) => overlap(item, point);
  return items.find(under) || clusters.findLast(under);
}

// The + of a closed module, the title of an open one.
function onSign(point) {
  const titled = page.picture.clusters.find(({ label }) => label && overlap(label, point));
  const item = itemAt(point), closed = item && !item.node && !item.open;
  return titled || (closed && point.x > item.x + item.w - 24 ? item : null);
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, event);
  dragged = pointers.size > 1 ? 99 : 0;
  apart = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return hoverAt(event);
  pointers.set(event.pointerId, event);
  const dx = event.offsetX - before.offsetX, dy = event.offsetY - before.offsetY;
  const [a, b] = pointers.values();
  dragged += Math.abs(dx) + Math.abs(dy);
  if (b) {
    const now = Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY);
    if (apart) zoom(now / apart, (a.offsetX + b.offsetX) / 2, (a.offsetY + b.offsetY) / 2);
    apart = now;
  } else if (dragged > 4) {
    view.x += dx;
    view.y += dy;
    redraw();
  }
});
canvas.addEventListener("pointerup", (event) => {
  const titled = onSign(worldAt(event));
  if (!pointers.delete(event.pointerId) || dragged > 4) return;
  if (titled) toggle(titled);
  else select(itemAt(worldAt(event)) || null);
});
canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
canvas.addEventListener("dblclick", (event) => {
  const item = itemAt(worldAt(event));
  if (item && !item.node && !onSign(worldAt(event))) toggle(item);
});
canvas.addEventListener("wheel", (event) => {
  // In a notebook the wheel belongs to the notebook until the graph is clicked.
  if (window !== parent && document.activeElement !== canvas && !event.ctrlKey) return;
  event.preventDefault();
  const pixels = Math.max(-120, Math.min(120, event.deltaY * (event.deltaMode ? 30 : 1)));
  zoom(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0025)), event.offsetX, event.offsetY);
}, { passive: false });

function tipOf({ op, name, shape, dtype, file, line }) {
  const what = filled(op, name).join("  "), facts = filled(listText(shape), dtype).join("  ");
  return filled(what, facts, file && spotOf(file, line)).join("\n");
}

function hoverAt(event) {
  const item = itemAt(worldAt(event)) || null;
  canvas.classList.toggle("over", Boolean(onSign(worldAt(event)) || (item && !item.open)));
  if (item === page.hover) return;
  page.hover = item;
  canvas.title = !item ? "" : item.node ? tipOf(item.node)
    : `${groupTitle(item)}\n${plural(item.count, "node")}, ${bytesText(item.bytes)} saved`;
  redraw();
}

function moveByMap(event) {
  if (!event.buttons) return;
  const point = { x: event.offsetX / page.mapScale, y: event.offsetY / page.mapScale, w: 0, h: 0 };
  centre(point, view.k);
}
map.addEventListener("pointerdown", moveByMap);
map.addEventListener("pointermove", moveByMap);

// --- keyboard and buttons: a button with data-key does what the key does ---

// From the selected item along an edge, or to its neighbour in the same layer; else moves the view.
// In the player, left and right go through the steps.
function arrowKey({ key, shiftKey }) {
  if (page.play && !shiftKey && (key === "ArrowLeft" || key === "ArrowRight")) {
    return setStep(page.play.at + (key === "ArrowRight" ? 1 : -1));
  }
  const here = page.selected, middle = (item) => item.x + item.w / 2;
  const away = (item) => Math.abs(middle(item) - middle(here));
  const dx = { ArrowLeft: -1, ArrowRight: 1 }[key] || 0;
  const dy = { ArrowUp: -1, ArrowDown: 1 }[key] || 0;
  if (!here || here.rep !== here || shiftKey) {
    view.x -= 70 * dx;
    view.y -= 70 * dy;
    return redraw();
  }
  const found = dy < 0 ? here.wires.filter(({ t }) => t === here).map(({ s }) => s)
    : dy > 0 ? here.wires.filter(({ s }) => s === here).map(({ t }) => t)
      : page.picture.items.filter((item) => (middle(item) - middle(here)) * dx > 0
        && item.y < here.y + here.h && here.y < item.y + item.h);
  if (found.length) goTo(found.sort((a, b) => away(a) - away(b))[0]);
}

const keys = {
  "/": () => $("search").focus(),
  "?": () => $("help").showModal(),
  "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), "f": fit,
  "e": () => openAll(true), "c": () => openAll(false),
  "r": () => byId.has(data.root?.[0]) && goTo(byId.get(data.root[0])),
  "x": () => byId.has(data.failed) && goTo(byId.get(data.failed)),
  "p": () => { $("panel").hidden = !$("panel").hidden; },
  "Escape": () => select(null),
  "Enter": () => page.selected && !page.selected.node && toggle(page.selected),
  "Backspace": () => {
    const group = page.selected?.open ? page.selected : page.selected?.parent;
    if (group?.parent) toggle(group, false);
  },
};
const playKeys = {
  " ": () => run(!page.timer),
  ".": () => setStep(page.play.at + 1), ",": () => setStep(page.play.at - 1),
  "Home": () => setStep(0), "End": () => setStep(data.trace.length - 1),
};

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  if (target.matches("input, select")) {
    if (key === "Escape") canvas.focus();
    if (key === "Enter" && target === $("search")) nextHit(event.shiftKey ? -1 : 1);
    return;
  }
  if (target.matches("button") && (key === "Enter" || key === " ")) return;
  const action = key.startsWith("Arrow") ? () => arrowKey(event) : keys[key];
  if (!action) return;
  event.preventDefault();
  action();
});
document.addEventListener("click", ({ target }) => keys[target.dataset?.key]?.());
$("search").addEventListener("input", ({ target }) => find(target.value));
for (const tab of ["step", "node"]) {
  $(`tab-${tab}`).addEventListener("click", () => {
    page.tab = tab;
    showDetails();
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = new Map();
  redraw();
});

function start() {
  buildTree();
  openAtStart();
  const saved = bytesText(data.bytes ?? root.bytes), failed = byId.get(data.failed);
  $("counts").textContent = `${plural(nodeCount, "node")}, ${saved} saved`;
  $("error").hidden = !data.error;
  if (failed) $("error").append(el("button", { "data-key": "x" }, "Show the node"));
  $("error").append(data.error || "");
  if (innerWidth <= 720) $("panel").hidden = true;
  $("player").hidden = $("tabs").hidden = !data.trace?.length;
  resize();
  relayout();
  if (data.trace?.length) {
    Object.assign(keys, playKeys);
    $("slider").addEventListener("input", ({ target }) => setStep(Number(target.value)));
    $("speed").addEventListener("change", () => run(Boolean(page.timer)));
    setStep(0);
    resize();
  }
  startView();
  if (failed && !page.play) page.selected = failed;
  showDetails();
  showLegend();
  draw();
  new ResizeObserver(resize).observe($("stage"));
  // For scripts and tests.
  window.tapegrad = {
    page, view, root, nodes, groups, byId, byPath, select, goTo, toggle, openAll, find, nextHit,
    setStep, run, fit, draw, ready: performance.now(),
  };
}

start();
