// Where everything goes: layers from the inputs (above) to the root (below), a box per open group.
//
// Each open group is a scene, laid out by itself, the innermost first; it is one large item of the
// scene around it. An edge that crosses the border of a group passes through a port, one that
// passes a layer has a bend there, which keeps its place free of items.

const GAP_X = 18, GAP_Y = 20, PAD = 12, HEAD = 24;
const MOST_BENDS = 30000; // edges too long for this are drawn straight

function layOut() {
  findShown();
  const open = groups.filter((group) => group.open && !group.rep);
  for (const group of open) {
    group.scene = { group, verts: [], segs: new Map(), ins: new Map(), outs: new Map() };
    for (const child of group.children) {
      child.wires = [];
      if (!child.open) measure(child);
      child.vert = addVert(group.scene, child, "");
    }
  }
  findWires();
  for (const { scene } of [...open].reverse()) layOutScene(scene);
  const picture = { items: [], clusters: open.slice(1), links: [] };
  root.x = root.y = 0;
  for (const group of open) finishScene(group, picture);
  return picture;
}

function addVert(scene, item, kind) {
  const vert = { item, kind, id: scene.verts.length, w: 6, h: 0, x: 0, ups: [], downs: [] };
  scene.verts.push(vert);
  return vert;
}

// The edges between what is seen, each once.
function findWires() {
  const known = new Set();
  for (const user of nodes) {
    for (const source of user.uses) {
      const wire = { s: source.rep, t: user.rep, segs: [] };
      const key = wire.s.uid * 4194304 + wire.t.uid;
      if (wire.s === wire.t || known.has(key)) continue;
      known.add(key);
      wire.s.wires.push(wire);
      wire.t.wires.push(wire);
      addSegments(wire);
    }
  }
}

// Cuts a wire at the borders it crosses: up out of the source's groups, then down to the target.
function addSegments({ s, t, segs }) {
  const seg = ({ scene }, from, to, fromPort, toPort) => {
    const key = s.uid * 4194304 + to.id;
    if (!scene.segs.has(key)) scene.segs.set(key, { from, to, fromPort, toPort });
    segs.push(scene.segs.get(key));
  };
  const port = ({ open, scene }, side) => {
    if (open && !scene[side].has(s)) scene[side].set(s, addVert(scene, null, side));
    return open ? scene[side].get(s) : null;
  };
  let a = s, b = t;
  while (a.parent !== b.parent) {
    if (a.parent.depth >= b.parent.depth) {
      seg(a.parent, a.vert, port(a.parent, "outs"), port(a, "outs"), null);
      a = a.parent;
    } else {
      seg(b.parent, port(b.parent, "ins"), b.vert, null, port(b, "ins"));
      b = b.parent;
    }
  }
  seg(a.parent, a.vert, b.vert, port(a, "outs"), port(b, "ins"));
}

function layOutScene(scene) {
  for (const vert of scene.verts) {
    if (vert.item) Object.assign(vert, { w: vert.item.w, h: vert.item.h });
  }
  scene.segs = [...scene.segs.values()];
  setLayers(scene);
  addBends(scene);
  setOrder(scene);
  setColumns(scene);
  setRows(scene);
}

// Every item as near to its users as it can be: ranks count from below. Depth first without
// recursion; an edge back to a vertex still being walked closes a cycle and is turned round.
function setLayers(scene) {
  const { verts } = scene, out = verts.map(() => []);
  for (const seg of scene.segs) out[seg.from.id].push(seg);
  const state = new Uint8Array(verts.length), next = new Int32Array(verts.length);
  let top = 0;
  for (const start of verts.filter((v) => v.item).sort((a, b) => b.item.first - a.item.first)) {
    const stack = state[start.id] ? [] : [start];
    while (stack.length) {
      const vert = stack.at(-1), seg = out[vert.id][next[vert.id]++];
      state[vert.id] = 1;
      if (seg && state[seg.to.id] === 1) seg.back = true;
      else if (seg && !state[seg.to.id]) stack.push(seg.to);
      if (seg) continue;
      state[stack.pop().id] = 2;
      vert.rank = vert.kind === "outs" ? 0 : 1;
      for (const { to, back } of out[vert.id]) {
        if (!back) vert.rank = Math.max(vert.rank, to.rank + 1);
      }
      top = Math.max(top, vert.rank);
    }
  }
  scene.layers = Array.from({ length: top + 2 }, () => ({ verts: [] }));
  for (const vert of verts) vert.layer = vert.kind === "ins" ? 0 : top + 1 - vert.rank;
}

// Edges that carry the same value away from a vertex share their bends.
function addBends(scene) {
  const nets = new Map();
  for (const seg of scene.segs) {
    const ends = [{ v: seg.from, port: seg.fromPort }, { v: seg.to, port: seg.toPort }];
    [seg.up, seg.down] = seg.back ? ends.reverse() : ends;
    const key = seg.back ? seg : seg.fromPort || seg.from;
    if (!nets.has(key)) nets.set(key, { segs: [], reach: 0 });
    const net = nets.get(key);
    net.segs.push(seg);
    net.reach = Math.max(net.reach, seg.down.v.layer - seg.up.v.layer);
  }
  let bends = 0;
  for (const { segs, reach } of [...nets.values()].sort((a, b) => a.reach - b.reach)) {
    const { up, back } = segs[0], chain = [up];
    bends += reach - 1;
    for (let i = 1; i < reach && bends < MOST_BENDS; i++) {
      const bend = addVert(scene, null, "bend");
      Object.assign(bend, { layer: up.v.layer + i, prev: chain.at(-1), back });
      chain.push({ v: bend, port: null });
      tie(bend.prev, chain.at(-1));
    }
    for (const seg of segs) {
      const span = seg.down.v.layer - seg.up.v.layer;
      seg.last = chain[span - 1] || up;
      if (span === 1 || chain[1]) tie(seg.last, seg.down);
    }
  }
}

// Two ends in neighbouring layers; a port says where on an open group the line ends.
function tie(up, down) {
  const shift = ({ v, port }) => (port ? port.x - v.item.w / 2 : 0);
  const dx = shift(up) - shift(down), weight = { value: up.v.kind && down.v.kind ? 8 : 1 };
  up.v.downs.push({ v: down.v, dx: -dx, weight });
  down.v.ups.push({ v: up.v, dx, weight });
}

// Which lines should be straight: into each item, the one with the longest way behind it.
function weigh(layers) {
  for (const { verts } of layers) {
    for (const vert of verts) {
      vert.deep = vert.kind === "ins" ? 1e6 : 0;
      for (const { v } of vert.ups) vert.deep = Math.max(vert.deep, v.deep + (vert.item ? 1 : 0));
      for (const { v, weight } of vert.ups) {
        if (vert.item) weight.value = v.deep + 1 === vert.deep ? 4 : 0.3;
      }
    }
  }
}

function setOrder({ layers, verts }) {
  // First as a walk up from the root meets them, which keeps what belongs together side by side.
  const seen = new Uint8Array(verts.length);
  for (const start of [...verts].sort((a, b) => b.layer - a.layer)) {
    for (const stack = [start]; stack.length;) {
      const vert = stack.pop();
      if (seen[vert.id]) continue;
      seen[vert.id] = 1;
      layers[vert.layer].verts.push(vert);
      for (let i = vert.ups.length; i--;) stack.push(vert.ups[i].v);
    }
  }
  // Then by the mean place of the neighbours, sweeping down and up.
  for (const layer of layers) pack(layer.verts);
  weigh(layers);
  sweep(layers, verts.length > 4000 ? 4 : 12, (layer, down) => {
    for (const vert of layer) {
      const [first, second] = down ? [vert.ups, vert.downs] : [vert.downs, vert.ups];
      // Of equals, the longest way goes right and parameters left.
      vert.mean = meanPlace(first, meanPlace(second, vert.x)) + 5 * Math.min(vert.deep, 9);
    }
    layer.sort((a, b) => a.mean - b.mean);
    pack(layer);
  });
}

function sweep(layers, rounds, action) {
  for (let round = 0; round < rounds; round++) {
    const down = round % 2 === 1;
    for (let i = 0; i < layers.length; i++) action(layers.at(down ? i : -1 - i).verts, down, round);
  }
}

function meanPlace(ties, otherwise) {
  const end = { mean: 0, pull: 0 };
  pullTo(end, ties);
  return end.pull ? end.mean / end.pull : otherwise;
}

const space = (a, b) => (a.w + b.w) / 2 + (a.kind && b.kind ? 8 : GAP_X);

function pack(layer) {
  let x = 0;
  layer.forEach((vert, i) => {
    if (i) x += space(layer[i - 1], vert);
    vert.x = x;
  });
  for (const vert of layer) vert.x -= x / 2;
}

// Columns: each vertex as near as it can be to the mean of its neighbours, in the order found.
function setColumns({ layers, verts }) {
  const rounds = verts.length > 8000 ? 6 : 16;
  sweep(layers, rounds, (layer, down, round) => {
    const both = round > rounds / 2;
    for (const vert of layer) {
      // A slight pull to the middle keeps long chains from leaning to one side.
      vert.pull = !vert.item ? 0.01 : vert.item.open ? 2.5 : 0.12;
      vert.mean = 0;
      if (both || down) pullTo(vert, vert.ups);
      if (both || !down) pullTo(vert, vert.downs);
      vert.mean /= vert.pull;
    }
    settle(layer, space);
  });
}

function pullTo(vert, ties) {
  for (const { v, dx, weight } of ties) {
    vert.mean += (v.x + dx) * weight.value;
    vert.pull += weight.value;
  }
}

// Least squares with an order and least distances: neighbours that collide move as one block.
function settle(layer, least) {
  const blocks = [];
  let offset = 0;
  layer.forEach((vert, i) => {
    if (i) offset += least(layer[i - 1], vert);
    vert.offset = offset;
    let block = { sum: (vert.mean - offset) * vert.pull, pull: vert.pull, verts: [vert] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).pull > block.sum / block.pull) {
      const { sum, pull, verts } = blocks.pop();
      for (const other of block.verts) verts.push(other);
      block = { sum: sum + block.sum, pull: pull + block.pull, verts };
    }
    blocks.push(block);
  });
  for (const { sum, pull, verts } of blocks) {
    for (const vert of verts) vert.x = sum / pull + vert.offset;
  }
}

function setRows({ group, layers, verts, ins, outs }) {
  let left = Infinity, right = -Infinity;
  for (const { x, w } of verts) {
    left = Math.min(left, x - w / 2);
    right = Math.max(right, x + w / 2);
  }
  const title = group.parent ? textWidth(TITLE, groupTitle(group)) + 24 : 0;
  group.w = Math.max(0, right - left, title) + 2 * PAD;
  let y = 0;
  layers.forEach((layer, i) => {
    let height = 0, slant = 0;
    for (const vert of layer.verts) {
      vert.x += (group.w - right - left) / 2;
      height = Math.max(height, vert.h);
      for (const { v, dx } of vert.ups) slant = Math.max(slant, Math.abs(v.x + dx - vert.x));
    }
    // Lines that run far to the side need height to stay readable.
    const gap = GAP_Y + Math.min(46, slant * 0.06);
    if (i === 1) y = group.parent ? Math.max(HEAD, ins.size && gap) : PAD;
    else if (i) y += i < layers.length - 1 ? gap : Math.max(PAD, outs.size && gap - 8);
    layer.top = y;
    layer.bottom = y += height;
  });
  group.h = y;
}

// Absolute places, outer groups first, and the lines to draw.
function finishScene(group, picture) {
  const { scene } = group, ends = new Map();
  for (const vert of scene.verts) {
    const { item } = vert, { top, bottom } = scene.layers[vert.layer];
    Object.assign(vert, { x: vert.x + group.x, top: top + group.y, bottom: bottom + group.y });
    if (!item) continue;
    // What nothing leads to stands near its user, the rest in the middle of its layer.
    item.x = vert.x - item.w / 2;
    item.y = vert.top + (bottom - top - item.h) * (vert.ups.length ? 0.5 : 1);
    if (!item.open) picture.items.push(item);
  }
  const link = ({ v, port }, x2, top, y2, back) => {
    const x1 = port ? v.item.x + port.x : v.x, y1 = v.item ? v.item.y + v.item.h : v.top;
    const made = { x1, y1, bottom: v.bottom, x2, top, y2, back, tail: v.item && !port };
    picture.links.push(made);
    return made;
  };
  for (const vert of scene.verts) {
    if (vert.prev) vert.link = link(vert.prev, vert.x, vert.top, vert.top, vert.back);
  }
  for (const seg of scene.segs) {
    if (!ends.has(seg.down.v)) ends.set(seg.down.v, []);
    ends.get(seg.down.v).push(seg);
  }
  for (const [vert, segs] of ends) {
    // Lines end above where they come from, as far as the item is wide.
    const { item } = vert, reach = item ? item.w / 2 - 14 : 0;
    for (const seg of segs) {
      const { v, port } = seg.last, x = (port ? v.item.x + port.x : v.x) - vert.x;
      Object.assign(seg, { mean: Math.max(-reach, Math.min(reach, x)) + x * 1e-6, pull: 1 });
    }
    segs.sort((a, b) => a.mean - b.mean);
    settle(segs, () => Math.min(14, (2 * reach) / segs.length));
    for (const seg of segs) {
      const { port } = seg.down, x = port ? item.x + port.x : vert.x + seg.x;
      seg.link = link(seg.last, x, vert.top, item ? item.y : vert.top, seg.back);
      seg.link.head = item && !port;
    }
  }
}

// All lines of some wires, for highlighting; bends are shared, so none is followed twice.
function linksOf(wires) {
  const links = new Set();
  for (const { segs } of wires) {
    for (const { link, last } of segs) {
      links.add(link);
      for (let { v } = last; v.link && !links.has(v.link); { v } = v.prev) links.add(v.link);
    }
  }
  return links;
}
