// The graph as a tree: modules are groups, nodes are what they hold; an item is either of them.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const SMALL = 60; // graphs up to this many nodes start fully expanded,
const ROOM = 30; // larger ones with about this many items in view

let uids = 0, groups = []; // parents first
// A tensor without gradient is drawn, but is no node of the history.
const nodeCount = data.nodes.filter(({ kind }) => kind !== "input" && kind !== "cut").length
  + (data.more || 0);
const nodes = [], byId = new Map(), byPath = new Map(), calls = new Map();
const root = makeGroup("", null);

function makeGroup(path, parent, type, title) {
  const depth = parent ? parent.depth + 1 : 0, open = !parent, around = `${parent?.path}.`;
  title ??= path.startsWith(around) ? path.slice(around.length) : path;
  groups.push({ uid: uids++, path, parent, type, title, depth, open, first: Infinity, fold: 0 });
  return Object.assign(groups.at(-1), { children: [], inner: new Map() });
}

// The modules around a module and itself, from the outside in.
function pathsTo(path) {
  const found = [], infos = data.groups || {};
  while (path) {
    found.unshift(path);
    const dotted = path.slice(0, Math.max(0, path.lastIndexOf(".")));
    const parent = Object.hasOwn(infos, path) ? infos[path].parent || "" : dotted;
    path = parent.length < path.length ? parent : dotted;
  }
  return found;
}

function enter(parent, path, again) {
  if (parent.inner.has(path) && !again) return parent.inner.get(path);
  const group = makeGroup(path, parent, data.groups?.[path]?.type);
  group.call = (calls.get(path) || 0) + 1;
  group.again = group.title.includes("."); // may be one of many in a loop, as may a later call
  calls.set(path, group.call);
  parent.children.push(group);
  parent.inner.set(path, group);
  if (!byPath.has(path)) byPath.set(path, group);
  return group;
}

// Nodes into the groups of their modules. What a module does is one stretch in time, and ids are
// in the order of time: after an interruption it has been called again, which is another group.
function placeNodes() {
  const made = nodes.filter((item) => item.uses.length);
  const running = new Set(made.map(({ node }) => node.module)), met = new Set(), broken = new Set();
  let before = [];
  for (const { node } of made) {
    const paths = pathsTo(node.module);
    for (const path of paths) {
      if (met.has(path) && !before.includes(path) && !running.has(path)) broken.add(path);
      met.add(path);
    }
    before = paths;
  }
  before = [];
  for (const item of [...made, ...nodes.filter(({ uses }) => !uses.length)]) {
    // A list of modules with other work in between is no box: its members stand for themselves.
    const paths = pathsTo(item.node.module).filter((path) => !broken.has(path));
    let same = true;
    item.parent = root;
    paths.forEach((path, i) => {
      same &&= path === before[i] || !item.uses.length;
      item.parent = enter(item.parent, path, !same && running.has(path));
      item.parent.first = Math.min(item.parent.first, item.first);
    });
    if (item.uses.length) before = paths;
    // A parameter of several calls, or one that no module claims, stands with its users.
    else if (item.made.length && (paths.length ? calls.get(paths.at(-1)) > 1 : item.node.param)) {
      item.parent = item.made.map((user) => user.parent).reduce(commonGroup);
    }
    item.parent.children.push(item);
  }
}

function buildTree() {
  for (const node of data.nodes) {
    const item = { uid: uids++, node, first: node.id, uses: [], made: [] };
    nodes.push(item);
    byId.set(node.id, item);
  }
  // An edge goes from the consumer to the producer; `uses` is what a node was computed from.
  for (const [consumer, producer] of [...data.edges].sort((a, b) => a[3] - b[3])) {
    byId.get(consumer).uses.push(byId.get(producer));
    byId.get(producer).made.push(byId.get(consumer));
  }
  placeNodes();
  for (const group of [...groups].sort((a, b) => b.depth - a.depth)) {
    const count = calls.get(group.path);
    if (count > 1) group.title += ` call ${count - group.call + 1}`;
    while (foldLoop(group));
    foldBlocks(group);
  }
  groups = [root];
  for (const group of groups) {
    for (const child of group.children.filter((c) => !c.node)) {
      child.depth = group.depth + 1;
      groups.push(child);
    }
  }
  placeTurns();
  for (const group of [...groups].reverse()) addUp(group);
}

// Where every turn of a loop has data of its own, the data stands there.
function placeTurns() {
  const turns = new Map();
  for (const item of root.children.filter((child) => child.made?.length && !child.uses.length)) {
    const turn = item.made.map((user) => user.parent).reduce(commonGroup);
    if (!turn.turn) continue;
    if (!turns.has(turn.parent)) turns.set(turn.parent, []);
    turns.get(turn.parent).push({ item, turn });
  }
  for (const [loop, found] of turns) {
    if (found.length < loop.fold) continue;
    const moved = new Set(found.map(({ item }) => item));
    root.children = root.children.filter((child) => !moved.has(child));
    for (const { item, turn } of found) {
      item.parent = turn;
      turn.children.push(item);
    }
  }
}

function addUp(group) {
  Object.assign(group, { count: 0, bytes: 0, failed: false, first: Infinity, ops: new Map() });
  for (const child of group.children) {
    const { node } = child;
    group.count += node ? 1 : child.count;
    group.bytes += (node || child).bytes || 0;
    group.first = Math.min(group.first, child.first);
    group.failed ||= node ? node.id === data.failed : child.failed;
    for (const [op, n] of node ? [[node.op, 1]] : child.ops) {
      group.ops.set(op, (group.ops.get(op) || 0) + n);
    }
  }
}

function commonGroup(a, b) {
  while (a !== b) {
    if (a.depth >= b.depth) a = a.parent;
    else b = b.parent;
  }
  return a;
}

// Puts children of one group into a new group inside it.
function gather(members, title, type, fold = 0) {
  const { parent } = members[0], moved = new Set(members);
  const group = makeGroup(`${parent.path} ${title}`, parent, type, title);
  parent.children = parent.children.filter((child) => !moved.has(child)).concat(group);
  for (const member of members) member.parent = group;
  return Object.assign(group, { children: members, fold });
}

// A loop written by hand leaves the same ops of the same lines again and again.
function foldLoop(group) {
  const steps = group.children.filter((c) => c.uses?.length || c.again || calls.get(c.path) > 1);
  steps.sort((a, b) => b.first - a.first);
  const signs = steps.map(({ node, sign }) => sign || `${node.op} ${node.file} ${node.line}`);
  let best = { length: 11 };
  for (let period = 1; period <= 64 && period * 4 <= steps.length; period++) {
    for (let i = 0, run = 0; i + period <= steps.length; i++) {
      if (signs[i] === signs[i + period]) run++;
      else {
        const length = (Math.floor(run / period) + 1) * period;
        if (length >= period * 4 && length > best.length) best = { length, period, at: i - run };
        run = 0;
      }
    }
  }
  const { length, period, at } = best;
  if (!period || nodes.length <= SMALL) return false;
  const members = steps.slice(at, at + length), turn = members.slice(0, period);
  const lines = turn.map(({ node }) => node?.line).filter((line) => line);
  const low = Math.min(...lines), high = Math.max(...lines);
  const span = high > low ? `${low}\u2013${high}` : low;
  const file = baseName(turn.find(({ node }) => node?.line)?.node.file);
  const loop = gather(members, "loop", file && spotOf(file, span), length / period);
  loop.sign = `${signs.slice(at, at + length)}`;
  for (let i = 0; period > 1 && i < length; i += period) {
    gather(members.slice(i, i + period), `turn ${i / period}`).turn = true;
  }
  return true;
}

// A line of a file, or of a cell of a notebook.
const spotOf = (file, line) => (/^In \[\d+\]$/.test(file) ? `${file}, line ${line}` : `${file}:${line}`);
const baseName = (file) => String(file || "").split(/[\\/]/).pop();
const signs = new Map();

// Numbered modules in a row that hold the same become one fold; works from the inside out.
function foldBlocks(group) {
  group.children = group.children.filter((child) => child.node || child.children.length);
  const blocks = group.children.filter((c) => !c.node && /^\d+$/.test(c.title));
  blocks.sort((a, b) => a.title - b.title);
  for (let i = 0, end; i < blocks.length; i = end) {
    for (end = i + 1; end < blocks.length && blocks[end].sign === blocks[i].sign; end++);
    const run = blocks.slice(i, end), { type, title } = run[0];
    if (run.length < 3) continue;
    if (run.length === group.children.length && group.parent) {
      Object.assign(group, { fold: run.length, type });
    } else gather(run, `${title} \u2013 ${run.at(-1).title}`, type, run.length).sign = run[0].sign;
  }
  const parts = group.children.map((c) => (c.node ? `${c.node.op} ${c.node.shape}` : c.sign));
  const text = `${group.type} ${group.fold}: ${parts.sort()}`;
  if (!signs.has(text)) signs.set(text, `#${signs.size}`);
  group.sign = signs.get(text);
}

// Small graphs open everywhere; large ones from the outside in, while there is room.
function openAtStart() {
  let shown = root.children.length;
  for (const group of groups.slice(1)) {
    const more = group.children.length - 1;
    const room = !group.fold && shown + more <= ROOM;
    group.open = nodes.length <= SMALL || (group.parent.open && room);
    if (group.open) shown += more;
  }
  if (byId.has(data.failed)) reveal(byId.get(data.failed));
}

// Opens what lies around an item; says whether anything changed.
function reveal(item) {
  let changed = false;
  for (let group = item.parent; group; group = group.parent) {
    changed ||= !group.open;
    group.open = true;
  }
  return changed;
}

// Where each item is seen: as itself, or as the outermost closed group around it.
function findShown() {
  root.rep = null;
  for (const group of groups) {
    for (const child of group.children) child.rep = group.rep || (child.open ? null : child);
  }
}

function search(query) {
  const terms = query.toLowerCase().split(/\s+/).filter((term) => term);
  return !terms.length ? [] : nodes.filter((item) => {
    const { op, name, module, module_type: type, kind, file, line, text } = item.node;
    item.text ??= [op, name, module, type, kind, spotOf(file, line), text].join(" ").toLowerCase();
    return terms.every((term) => item.text.includes(term));
  });
}
