// The backward pass, step by step: what has run, what runs now, what the rule gave.

const stepOf = new Map((data.trace || []).map((step, i) => [step.node, i]));

// The state while step `at` runs, from the steps before it.
function replay(at) {
  const play = { at, step: data.trace[at], done: new Set(), sums: new Map(), parts: new Map() };
  data.trace.slice(0, at + 1).forEach((step, i) => {
    if (i < at) play.done.add(step.node);
    for (const sum of step.accumulated || []) play.sums.set(sum.node, sum);
  });
  for (const id of stepOf.keys()) {
    const { rep } = byId.get(id) || {}, [done, all] = play.parts.get(rep) || [0, 0];
    play.parts.set(rep, [done + play.done.has(id), all + 1]);
  }
  return play;
}

// How an item looks in the player.
function playLook(item) {
  const { step, sums, parts } = page.play, sum = item.node && sums.get(item.node.id);
  const [done, all] = parts.get(item) || [0, 0], uses = item.made?.length || 0;
  const of = Math.max(uses, sum?.count || 0);
  const badge = sum && of > 1 ? `\u03a3 ${sum.count}/${of}` : "";
  const part = done / all || 0;
  if (byId.get(step.node)?.rep === item) return { running: true, fill: "run-fill", part, badge };
  return part === 1 ? { fill: "done-fill", badge } : { waiting: !done, part, badge };
}

// The lines that carry gradients in this step.
function playWires() {
  const { step } = page.play, from = byId.get(step.node)?.rep;
  const targets = new Set((step.outgoing || []).map(({ to }) => byId.get(to)?.rep));
  return (from?.wires || []).filter(({ s, t }) => t === from && targets.has(s));
}

function gradient({ shape, norm, values }) {
  const size = norm == null ? "" : `norm ${number(norm)}`;
  return [dim(filled(listText(shape), size).join(", ")), matrix(values)];
}

function stepPanel() {
  const { step } = page.play, node = byId.get(step.node)?.node || {};
  const sums = (step.accumulated || []).map((sum) => {
    const item = byId.get(sum.node), { name, op } = item?.node || {}, uses = item?.made.length || 0;
    const words = Math.max(uses, sum.count) < 2 ? " has received its gradient:"
      : ` has received ${sum.count} of ${Math.max(uses, sum.count)} gradients; the sum so far:`;
    return [el("p", null, el("b", null, name || op || "a tensor"), words), gradient(sum)];
  });
  return [
    el("h2", null, step.op),
    dim(filled(node.name, node.module).join(" \u00b7 ")),
    code(step.rule),
    section("Gradient coming in", filled(step.incoming).flat().map(gradient)),
    (step.outgoing || []).map((out) => section(
      `Gradient for ${out.input ?? "input"}`,
      out.rule !== step.rule && code(out.rule),
      gradient(out),
      byId.has(out.to) ? itemLink(byId.get(out.to)) : dim("goes nowhere"),
    )),
    section("Added up", sums),
    section("Source", source(step.line?.file ? step.line : node)),
  ];
}

function setStep(step) {
  const last = data.trace.length - 1, at = Math.min(last, Math.max(0, step));
  page.play = replay(at);
  page.tab = "step";
  const item = byId.get(data.trace[at].node)?.rep;
  if (item) keepInView(item);
  Object.assign($("slider"), { max: last, value: at });
  $("slider").setAttribute("aria-valuetext", `step ${at + 1} of ${last + 1}: ${data.trace[at].op}`);
  $("step").textContent = `step ${at + 1} / ${last + 1}`;
  showDetails();
  redraw();
}

function run(on) {
  clearInterval(page.timer);
  page.timer = 0;
  const last = () => page.play.at >= data.trace.length - 1;
  if (on && last()) setStep(0);
  if (on) {
    page.timer = setInterval(() => {
      setStep(page.play.at + 1);
      if (last()) run(false);
    }, Number($("speed").value));
  }
  $("play").textContent = page.timer ? "Pause" : "Play";
}
