// The picture on the canvas. Places are in world units; `view` moves and scales them.

const FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
const TITLE = `600 12.5px ${FONT}`, PLAIN = `11.5px ${FONT}`;
const KINDS = {
  param: "parameter", leaf: "leaf tensor", input: "input without gradient", op: "operation",
  function: "custom Function", slices: "write through a view", cut: "cut: no gradient passes",
};

const canvas = $("graph"), ctx = canvas.getContext("2d");
const map = $("map"), mapCtx = map.getContext("2d");
const view = { x: 0, y: 0, k: 1, w: 0, h: 0 };
const style = getComputedStyle(document.documentElement);
let palette = new Map();

function colour(name) {
  if (!palette.has(name)) palette.set(name, style.getPropertyValue(`--${name}`).trim());
  return palette.get(name);
}

function kindOf({ node }) {
  return !node ? "group" : node.kind === "leaf" && node.param ? "param" : node.kind;
}

const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const filled = (...parts) => parts.filter((part) => part || part === 0);
const clip = (text) => (text.length > 34 ? `${text.slice(0, 33)}\u2026` : text);
const shapeText = (shape) => (!shape ? "" : shape.join("\u00d7") || "scalar");
const isSource = ({ node }) => node.kind === "leaf" || node.kind === "input";
const titleOf = (group) => group.title + (group.fold ? `  \u00d7 ${group.fold}` : "");
const groupTitle = (group) => clip(filled(titleOf(group), group.type).join("  \u00b7  "));
const widths = new Map();

function textWidth(font, text) {
  if (!widths.has(font + text)) {
    ctx.font = font;
    widths.set(font + text, ctx.measureText(text).width);
  }
  return widths.get(font + text);
}

function measure(item) {
  if (!item.lines) label(item);
  [item.w, item.h] = item.size; // a group had another one while it was open
}

const digits = (value) => String(Number(value.toPrecision(4)));

// What stands in a node besides its name: of one number the number, and its gradient with the sign.
function factsOf({ shape, dtype, summary, grad }) {
  const one = (facts) => facts?.size === 1 && typeof facts.mean === "number";
  const value = one(summary) ? `= ${digits(summary.mean)}` : shapeText(shape);
  return filled(value, dtype === "float32" ? "" : dtype, one(grad) && `grad ${digits(grad.mean)}`);
}

function label(item) {
  const { node } = item;
  if (node) {
    // A parameter's name without the path of the module it stands in.
    const path = `${item.parent.path}.`, facts = factsOf(node);
    const name = node.name?.startsWith(path) ? node.name.slice(path.length) : node.name;
    if (isSource(item)) item.lines = [name || KINDS[kindOf(item)], facts.join("  ")];
    else item.lines = [node.op.replace(/Backward\d*$/, ""), filled(name, ...facts).join("  ")];
  } else {
    const facts = filled(item.type, plural(item.count, "node"));
    item.lines = [titleOf(item), facts.join(" \u00b7 ")];
  }
  item.lines = item.lines.map(clip);
  const text = Math.max(textWidth(TITLE, item.lines[0]), textWidth(PLAIN, item.lines[1]));
  item.size = [Math.max(60, Math.ceil(text) + (node ? 22 : 42)), item.lines[1] ? 37 : 25];
}

function draw() {
  const { k } = view, ratio = devicePixelRatio || 1, { picture } = page;
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, canvas.width, canvas.height);
  ctx.setTransform(ratio * k, 0, 0, ratio * k, ratio * view.x, ratio * view.y);
  ctx.textBaseline = "middle";
  const seen = { x: -view.x / k, y: -view.y / k, w: view.w / k, h: view.h / k };
  const clusters = picture.clusters.filter((group) => overlap(group, seen));
  for (const group of clusters) {
    const strong = group === page.selected;
    box(group, 8, clusterColour(group), colour(strong ? "accent" : "rule"), strong ? 2.5 : 1);
  }
  const inView = ({ x1, y1, x2, y2 }) =>
    overlap({ x: Math.min(x1, x2), y: y1, w: Math.abs(x1 - x2), h: y2 - y1 }, seen);
  drawLinks(picture.links.filter(inView), "line", 1.2, page.play);
  for (const item of new Set([page.selected, page.hover])) {
    if (item?.rep === item) drawLinks(linksOf(item?.wires || []), "accent", 2.2);
  }
  if (page.play) drawLinks(linksOf(playWires()), "run", 3, true);
  for (const item of picture.items) if (overlap(item, seen)) drawItem(item);
  drawTitles(clusters, seen);
  drawMap();
}

function overlap(a, b) {
  return a.x <= b.x + b.w && b.x <= a.x + a.w && a.y <= b.y + b.h && b.y <= a.y + a.h;
}

const clusterColour = (group) => colour(group.depth % 2 ? "cluster" : "cluster-2");

function box({ x, y, w, h }, radius, fill, stroke, width) {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, radius);
  ctx.fillStyle = fill;
  if (fill) ctx.fill();
  ctx.strokeStyle = stroke;
  ctx.lineWidth = Math.max(width, 0.6 / view.k);
  if (stroke) ctx.stroke();
}

function drawLinks(links, name, width, backwards) {
  ctx.strokeStyle = ctx.fillStyle = colour(name);
  ctx.lineWidth = Math.max(width, 0.7 / view.k);
  for (const dashed of [false, true]) {
    ctx.setLineDash(dashed ? [6, 4] : []);
    ctx.beginPath();
    for (const { x1, y1, bottom, x2, top, y2, back } of links) {
      if (Boolean(back) !== dashed) continue;
      const middle = (bottom + top) / 2;
      ctx.moveTo(x1, y1);
      ctx.lineTo(x1, bottom);
      ctx.bezierCurveTo(x1, middle, x2, middle, x2, top);
      ctx.lineTo(x2, y2);
    }
    ctx.stroke();
  }
  ctx.setLineDash([]);
  if (view.k < 0.25) return;
  ctx.beginPath();
  for (const { x1, y1, x2, y2, head, tail, back } of links) {
    // Where the value arrives, or the gradient; not at borders, which the next piece continues.
    const up = Boolean(back) !== Boolean(backwards);
    if (up ? tail : head) arrow(up ? x1 : x2, up ? y1 : y2, (up ? 1 : -1) * (4 + width));
  }
  ctx.fill();
}

function arrow(x, y, size) {
  ctx.moveTo(x, y);
  ctx.lineTo(x - size * 0.6, y + size * 1.4);
  ctx.lineTo(x + size * 0.6, y + size * 1.4);
}

function drawItem(item) {
  const { x, y, w, h, node } = item, kind = kindOf(item), look = page.play ? playLook(item) : {};
  const failed = node ? node.id === data.failed : item.failed, { selected, hover } = page;
  // Groups look like a stack of cards, folds like a higher one.
  for (let n = node ? 0 : item.fold ? 2 : 1; n; n--) {
    box({ x: x + 3 * n, y: y + 3 * n, w, h }, 7, colour("cluster-2"), colour("line"), 1);
  }
  const radius = kind === "op" || !node ? 7 : 13;
  const near = item === hover || [selected, hover].some((other) =>
    other?.rep === other && other?.wires.some((wire) => wire.s === item || wire.t === item));
  const chosen = item === selected || near;
  const edge = look.running ? "run" : failed ? "failed" : chosen ? "accent" : kind;
  if (page.hitItems.has(item)) {
    box({ x: x - 5, y: y - 5, w: w + 10, h: h + 10 }, 11, "", colour("mark"), 4);
  }
  if (kind === "cut") ctx.setLineDash([4, 3]);
  const fill = failed ? "failed-fill" : look.fill || "surface";
  const bold = look.running || failed || item === selected;
  box(item, radius, colour(fill), colour(edge), bold ? 2.6 : 1.3);
  ctx.setLineDash([]);
  if (look.part) box({ x, y: y + h - 5, w: w * look.part, h: 5 }, 2, colour("param"));
  if (view.k < 0.28) return;
  ctx.textAlign = "center";
  ctx.globalAlpha = look.waiting ? 0.6 : 1;
  ctx.fillStyle = failed ? colour("failed") : colour(radius === 7 ? "ink" : kind);
  ctx.font = TITLE;
  const middle = x + w / 2 - (node ? 0 : 9);
  ctx.fillText(item.lines[0], middle, y + (item.lines[1] ? 12.5 : h / 2));
  ctx.font = PLAIN;
  ctx.fillStyle = colour("dim");
  ctx.fillText(item.lines[1], middle, y + 26.5);
  ctx.textAlign = "left";
  ctx.globalAlpha = 1;
  if (!node) sign(x + w - 17, y + h / 2, "+");
  const badge = failed ? "failed here" : look.badge;
  if (!badge) return;
  const width = textWidth(PLAIN, badge) + 12;
  box({ x: x + w - width + 6, y: y - 10, w: width, h: 16 }, 8, colour(failed ? "failed" : "run"));
  ctx.fillStyle = colour("surface");
  ctx.fillText(badge, x + w - width + 12, y - 1.5);
}

function sign(x, y, plus) {
  ctx.fillStyle = colour("dim");
  ctx.fillRect(x, y - 0.8, 9, 1.6);
  if (plus) ctx.fillRect(x + 3.7, y - 4.5, 1.6, 9);
}

// Titles of open groups, in a readable size as long as they fit and cover no other title; and the
// path of the group in the middle of the view whose title is out of sight.
function drawTitles(clusters, seen) {
  const taken = [], middle = { x: seen.x + seen.w / 2, y: seen.y + seen.h / 2, w: 0, h: 0 };
  const around = clusters.filter((group) => group.y < seen.y && overlap(group, middle));
  $("crumbs").textContent = around.map(titleOf).join("  \u203a  ");
  for (const group of clusters) {
    const scale = Math.max(1, 0.8 / view.k), text = scale > 1.6 ? group.title : groupTitle(group);
    const w = (textWidth(TITLE, text) + 22) * scale, h = 18 * scale;
    const spot = { x: group.x + 4, y: group.y + 3, w, h }, ins = [...group.scene.ins.values()];
    // On the right where a line comes in on the left.
    const far = group.w - w - 8;
    const crossed = (left) => ins.some(({ x }) => x > left && x < left + w);
    if (crossed(spot.x) && !crossed(spot.x + far)) spot.x += far;
    group.label = null;
    if (w + 8 > group.w || h + 8 > group.h || taken.some((t) => overlap(t, spot))) continue;
    taken.push(group.label = spot);
    box(spot, 5 * scale, clusterColour(group));
    ctx.save();
    ctx.translate(spot.x, spot.y + spot.h / 2);
    ctx.scale(scale, scale);
    sign(4, 0);
    ctx.font = TITLE;
    ctx.fillText(text, 18, 0.5);
    ctx.restore();
  }
}

// The small map in the corner, while not everything is in view.
function drawMap() {
  const ratio = devicePixelRatio || 1, size = Math.min(160, view.h * 0.35);
  map.hidden = root.w * view.k <= view.w + 2 && root.h * view.k <= view.h + 2;
  if (map.hidden) return;
  const k = page.mapScale = Math.min(size / root.w, size / root.h);
  const w = Math.max(20, root.w * k), h = Math.max(20, root.h * k);
  Object.assign(map, { width: w * ratio, height: h * ratio });
  map.style.width = `${w}px`;
  map.style.height = `${h}px`;
  mapCtx.scale(ratio, ratio);
  for (const item of [...page.picture.clusters, ...page.picture.items]) {
    const name = item.failed ? "failed" : kindOf(item);
    mapCtx.fillStyle = item.open ? clusterColour(item) : colour(name);
    mapCtx.fillRect(item.x * k, item.y * k, Math.max(1, item.w * k), Math.max(1, item.h * k));
  }
  mapCtx.strokeStyle = colour("accent");
  mapCtx.lineWidth = 2;
  const s = k / view.k;
  mapCtx.strokeRect(-view.x * s, -view.y * s, view.w * s, Math.max(2, view.h * s));
}
