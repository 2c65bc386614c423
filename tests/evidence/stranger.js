// A checker of evidence/2 about flat/1, for the kinds `run` and `safe-policy`, written from docs/flat.md and docs/evidence.md alone.
//   node stranger.js WORLD.flat EVIDENCE       prints `accepted: ...` (exit 0), `rejected: ...` (10) or `refused: ...` (30)
// Integers are BigInts, doubles are numbers, and in weights a double or quotient is a fraction [numerator, denominator > 0].
// Refused beside what the formats forbid: functions that are not exact (log, pow of doubles; exp, sin, ... but at 0), networks, answers, sampling.
"use strict";
const { readFileSync } = require("fs"), { createHash } = require("crypto"), { gunzipSync } = require("zlib");
class Refused extends Error {}      // a text is not what its format says, or is beyond this checker
class Rejected extends Error {}     // the evidence does not show its claim
class ModelError extends Error {}   // an expression, weight or assignment that is an error
class OutOfBounds extends ModelError {}
const fail = (Kind, why) => { throw new Kind(why); }, need = (holds, why) => holds || fail(Refused, why);
const utf8 = (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes);

// Numbers: integers, doubles, fractions.
const isQ = Array.isArray, big = (v) => typeof v === "bigint", size = (v) => (v < 0n ? -v : v);
const q = (v) => { if (isQ(v)) return v; let d = 1n; if (!big(v)) while (!Number.isInteger(v)) { v *= 2; d *= 2n; } return [BigInt(v), d]; };
const cmp = (a, b) => { if (isQ(a) || isQ(b)) { const [m, n] = [q(a), q(b)]; a = m[0] * n[1]; b = n[0] * m[1]; } return a < b ? -1 : a > b ? 1 : 0; };
const truth = (v) => cmp(v, 0n) !== 0, div = (n, d) => (n - (((n % d) + d) % d)) / d;
const double = (v) => (Number.isFinite(Number(v)) ? Number(v) + 0 : fail(ModelError, "a double that is not finite"));
const meet = (ints, doubles, fractions) => (a, b) => (big(a) && big(b) ? ints(a, b)
  : isQ(a) || isQ(b) ? fractions(q(a), q(b)) : double(doubles(double(a), double(b))));
const add = meet((a, b) => a + b, (a, b) => a + b, ([a, b], [c, d]) => [a * d + c * b, b * d]);
const times = meet((a, b) => a * b, (a, b) => a * b, ([a, b], [c, d]) => [a * c, b * d]);
const quotient = ([a, b], [c, d]) => (c > 0n ? [a * d, b * c] : [-a * d, -b * c]);
const rest = meet((a, b) => { b = size(b); return ((a % b) + b) % b; }, (a, b) => { b = Math.abs(b); return a % b < 0 ? (a % b) + b : a % b; },
  (a, b) => { const m = [size(b[0]), b[1]], k = quotient(a, m); return add(a, times([-div(...k), 1n], m)); });
const power = (a, b) => {
  if (big(a) && big(b)) return b < 0n || (b > 63n && size(a) > 1n) ? fail(ModelError, "pow out of its range") : b <= 63n ? a ** b : b % 2n ? a : a * a;
  need(isQ(a) && big(b) && size(b) <= 1024n, "pow of doubles is not computed here");
  return b >= 0n ? [a[0] ** b, a[1] ** b] : truth(a) ? quotient([1n, 1n], [a[0] ** -b, a[1] ** -b]) : fail(ModelError, "a quotient by 0");
};
const pick = (sign) => meet((a, b) => (cmp(a, b) === sign ? a : b), (a, b) => (cmp(a, b) === sign ? a : b), (a, b) => (cmp(a, b) === sign ? a : b));
const by = (f) => (a, b, exact) => (truth(b) ? f(a, b, exact) : fail(ModelError, "a quotient or remainder by 0"));
const STRICT = {  // each: [number of arguments (-2: at least two, from the left), function of them and of `exact`: whether this is a weight]
  "+": [-2, add], "*": [-2, times], min: [-2, pick(-1)], max: [-2, pick(1)], "-": [2, (a, b) => add(a, times(-1n, b))],
  "/": [2, by((a, b, exact) => (exact ? quotient(q(a), q(b)) : double(double(a) / double(b))))], "%": [2, by(rest)], pow: [2, power],
  "=": [2, (a, b) => BigInt(cmp(a, b) === 0)], "<": [2, (a, b) => BigInt(cmp(a, b) < 0)], "<=": [2, (a, b) => BigInt(cmp(a, b) <= 0)],
  not: [1, (a) => BigInt(!truth(a))], abs: [1, (a) => (cmp(a, 0n) < 0 ? times(-1n, a) : a)],
  sgn: [1, (a) => { const s = cmp(a, 0n); return big(a) ? BigInt(s) : isQ(a) ? q(s) : s; }],
  floor: [1, (a) => div(...q(a))], ceil: [1, (a) => -div(-q(a)[0], q(a)[1])], trc: [1, (a) => q(a)[0] / q(a)[1]],
};
for (const f of "exp sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split(" "))
  STRICT[f] = [1, (a) => (need(!truth(a) && !f.startsWith("acos"), `${f} is computed here at 0 alone`), Math[f](0))];

// Texts. A quoted word is kept with its first quote, so that it is no keyword.
function parse(text) {
  const word = /"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+/g, words = text.match(word) || [];
  need(!text.replace(word, "").trim(), "a stray quote");
  let at = 0;
  const list = () => { const l = []; while (words[at] !== ")") l.push(read()); at++; return l; };
  const read = () => {
    const w = need(words[at], "a bracket is not closed") && words[at++];
    if (w === "(") return list();
    if (w[0] === '"') return '"' + JSON.parse(w);
    need(w !== ")", "a bracket too many");
    if (/^-?\d+$/.test(w)) return BigInt(w);
    if (!/^-?\d+(\.\d+)?(e[-+]?\d+)?$/.test(w)) return w;
    return need(Number.isFinite(Number(w)), `${w} is no double`) && Number(w);
  };
  const items = []; while (at < words.length) items.push(read()); return items;
}
function json(text) {  // JSON.parse sees to the grammar; integers are exact, and keys stand once
  JSON.parse(text);
  const words = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]]|[^\s,:{}[\]"]+/g); let at = 0;
  const read = () => {
    const w = words[at++], o = Object.create(null), l = [];
    if (w === "[") { while (words[at] !== "]") l.push(read()); at++; return l; }
    if (w === "{") {
      while (words[at] !== "}") { const k = JSON.parse(words[at++]); need(!(k in o), `the key ${k} stands twice`); o[k] = read(); }
      at++; return o;
    }
    return /^-?\d+$/.test(w) ? BigInt(w) : need(Math.abs(JSON.parse(w)) !== Infinity, "an infinite number") && JSON.parse(w);
  };
  return read();
}
const name = (w) => need(typeof w === "string", "a name is needed") && (w[0] === '"' ? w.slice(1) : w), label = (w) => (w === "-" ? null : name(w));
const MEANING = { choice: ["policy", "chance"], choose: ["arg-max", "sampled"], applicable: ["filtered", "raw"], avoid: ["deadlock", "stuck", "loop"],
  environment: ["adversarial", "fair"], bounds: ["error", "disable"], errors: ["all", "aside"] };
function world(text) {
  const vars = [], scope = new Map(), ops = [], features = [], events = [], w = { vars }, meaning = {};
  const compile = (e) => {  // a function of the values of all variables, and of whether it is a weight
    if (big(e)) return () => e;
    if (typeof e === "number") return (s, exact) => (exact ? q(e) : e);
    if (e === "error") return () => fail(ModelError, "error");
    if (!isQ(e)) return scope.get(name(e)) || fail(Refused, `unknown name ${e}`);
    const head = e[0], a = e.slice(1).map(compile), n = a.length, count = (k) => need(k < 0 ? n >= -k : n === k, `${head} of ${n} arguments`);
    const [arity, f] = Object.hasOwn(STRICT, head) ? STRICT[head] : [];
    if (f && count(arity)) return (s, exact) => {
      const v = a.map((g) => g(s, exact)); need(!exact || !v.some((x) => typeof x === "number"), "a rounded weight is not computed here");
      return arity < 0 ? v.reduce((x, y) => f(x, y)) : f(...v, exact);
    };
    if (head === "and" && count(-1)) return (s, x) => BigInt(a.every((g) => truth(g(s, x))));
    if (head === "or" && count(-1)) return (s, x) => BigInt(a.some((g) => truth(g(s, x))));
    if (head === "=>" && count(2)) return (s, x) => BigInt(!truth(a[0](s, x)) || truth(a[1](s, x)));
    if (head === "ite" && count(3)) return (s, x) => (truth(a[0](s, x)) ? a[1] : a[2])(s, x);
    if (head === "at" && count(-2)) return (s, x) => {
      const [i, d] = q(a[0](s, x)), g = i % d || i < 0n ? null : a[Number(i / d) + 1];
      return g ? g(s, x) : fail(ModelError, "at outside of its list");
    };
    if (head === "exact" && count(1)) return (s, x) => need(x, "exact stands in weights alone") && q(a[0](s, x));
    return fail(Refused, `unknown expression ${head}`);
  };
  const within = (v, low, high) => (low === "*" || cmp(low, v) <= 0) && (high === "*" || cmp(v, high) <= 0);
  const index = (word) => { const i = vars.findIndex((v) => v.name === name(word)); return need(i >= 0, `unknown variable ${word}`) && i; };
  const declare = ([kind, word, low, high], first) => {
    const i = vars.length, id = name(word); need(!scope.has(id), `${id} is declared twice`);
    need(["variable", "integer", "real"].includes(kind), kind);
    const fit = (v) => { if (kind === "real") return double(v); return need(big(v), `a double for the integer ${id}`) && v; };
    const put = (v) => { const x = fit(v); return within(x, low, high) ? x : fail(OutOfBounds, `${id} outside of its bounds`); };
    vars.push({ name: id, first, put });
    scope.set(id, (s, exact) => (exact && typeof s[i] === "number" ? q(s[i]) : s[i]));
  };
  const operator = (word, guard, branches) => {
    const stage = (sets) => sets.map(([v, e, more]) => need(more === undefined, "an assignment") && [index(v), compile(e)]);
    const compiled = branches.map(([weight, ...stages]) => ({ weight: compile(weight), stages: stages.map(stage) }));
    ops.push({ label: label(word), guard: compile(guard), branches: compiled });
  };
  w.full = (s) => vars.map((v, i) => (v.first === undefined ? s[i] : v.first));
  w.key = (s) => s.filter((_, i) => vars[i].first === undefined).join();
  w.state = (given) => {  // a state as evidence or `starts` write it, by places or by names
    const mine = vars.filter((v) => v.first === undefined), list = isQ(given) ? given : mine.map((v) => given[v.name]);
    need(list.length === mine.length && (isQ(given) || Object.keys(given).length === list.length), "not a state");
    const value = (v) => (typeof v === "string" && /^-?\d+$/.test(v) ? BigInt(v) : v); let at = 0, put = list.map(value);
    need(put.every((v) => big(v) || typeof v === "number"), "a value is a number");
    try { put = mine.map((v, i) => v.put(put[i])); } catch (e) { fail(Refused, `not a state: ${e.message}`); }
    return vars.map((v) => (v.first === undefined ? put[at++] : v.first));
  };
  const rows = (v, [number, word], outcomes) => {  // a row is an operator
    const stops = events.filter((e) => e.of === v).flatMap((e) => e.names), mine = features.filter((f) => f.of === v);
    const branch = ([weight, to, ...sets]) => {
      const moved = mine.filter((f) => need(number in f.at && to in f.at, "a feature is too short") && cmp(f.at[number], f.at[to]));
      return [weight, [[v, to], ...sets.map((e) => [e, 1n]), ...moved.map((f) => [f.word, f.at[to]])]];
    };
    operator(word, ["and", ["=", v, number], ...stops.map((e) => ["not", e])], outcomes.map(branch));
  };
  const ITEMS = {
    variable: (...a) => declare(["variable", ...a]), integer: (...a) => declare(["integer", ...a]), real: (...a) => declare(["real", ...a]),
    scratch: (v, first) => declare(v, v[0] === "real" ? double(first) : first),
    define: (word, e) => { const f = compile(e); need(!scope.has(name(word)), `${word} is declared twice`); scope.set(name(word), f); },
    operator: (word, guard, ...branches) => operator(word, guard, branches.map(([b, weight, ...stages]) =>
      [need(b === "branch", "a branch") && weight, ...stages.map(([t, ...sets]) => need(t === "then", "a stage") && sets)])),
    feature: (word, of, ...at) => features.push({ word, of, at }), event: (of, ...names) => events.push({ of, names }),
    rows: (v, head, ...out) => rows(v, head, out),
    fail: (e) => { w.fail = compile(e); }, goal: (e) => { w.goal = compile(e); },
    starts: (...list) => { const keys = new Set(list.map((s) => w.key(w.state(s)))); w.start = (s) => keys.has(w.key(s)); },
    start: (...ranges) => {
      const parts = ranges.map(([v, low, high, ...conditions]) => ({ i: index(v), low, high, conditions: conditions.map(compile) }));
      const end = (v) => v === "*" || big(v) || typeof v === "number", mine = vars.filter((v) => v.first === undefined);
      need(parts.every((p) => end(p.low) && end(p.high)), "start: a bound is a number or *");
      need(new Set(parts.map((p) => p.i)).size === parts.length && parts.length === mine.length, "start: a range for each variable");
      const holds = (c, s) => { try { return truth(c(s)); } catch (e) { if (e instanceof ModelError) return false; throw e; } };
      w.start = (s) => parts.every((p) => within(s[p.i], p.low, p.high) && p.conditions.every((c) => holds(c, s)));
    },
    meaning: (...parts) => { for (const [k, ...v] of parts) meaning[k] = v; },
    policy: (kind, ...parts) => { w.policy = policy(kind, parts, compile, vars); },
  };
  const [first, ...items] = parse(text); need(isQ(first) && first.join(" ") === "flat 1" && big(first[1]), "the first item is not (flat 1)");
  for (const item of items) need(isQ(item) && Object.hasOwn(ITEMS, item[0]), `unknown item ${item[0]}`) && ITEMS[item[0]](...item.slice(1));
  const standing = (k) => items.filter((item) => item[0] === k).length;
  need(["fail", "goal", "meaning"].every((k) => standing(k) === 1) && standing("start") + standing("starts") === 1 && standing("policy") < 2, "an item");
  for (const [k, values] of Object.entries(MEANING)) {
    const said = k === "avoid" ? meaning[k] : meaning[k] && [meaning[k][0]]; need(said && said.every((v) => values.includes(v)), `meaning: ${k}`);
  }
  const run = (op, s) => {  // the outcomes of an enabled operator, or null where it is not enabled
    if (!truth(op.guard(s))) return null;
    const signs = op.branches.map((b) => cmp(b.weight(s, true), 0n));
    if (signs.some((x) => x < 0) || !signs.some((x) => x > 0)) fail(ModelError, "a weight below 0, or all are 0");
    try {
      return op.branches.filter((_, i) => signs[i] > 0).map((b) => w.key(b.stages.reduce((before, stage) => {
        const after = [...before], done = new Set();
        for (const [i, e] of stage) {
          const v = e(before); if (done.has(i)) fail(ModelError, "assigned twice");
          done.add(i); after[i] = vars[i].put(v);
        }
        return after;
      }, w.full(s))));
    } catch (e) { if (e instanceof OutOfBounds && meaning.bounds[0] === "disable") return null; throw e; }
  };
  w.chance = meaning.choice[0] === "chance"; w.avoid = meaning.avoid;
  w.enabled = (s) => ops.map((op) => ({ label: op.label, outcomes: run(op, s) })).filter((o) => o.outcomes);
  w.ends = (s) => (truth(w.fail(s)) ? "fail" : truth(w.goal(s)) ? "goal" : null);
  w.chosen = (s, enabled) => {  // what the policy chooses; null: it is not asked; undefined: it is stuck
    const here = new Set(enabled.map((o) => o.label)), raw = meaning.applicable[0] === "raw"; need(meaning.choose[0] === "arg-max", "sampling");
    if (![...here].some((l) => l !== null)) return null;
    const may = w.policy.labels.map((l) => raw || (l !== null && here.has(l))); if (!may.includes(true)) return undefined;
    const scores = w.policy.scores(s), best = may.reduce((b, m, i) => (m && (b < 0 || scores[i] > scores[b]) ? i : b), -1), l = w.policy.labels[best];
    return l !== null && here.has(l) ? l : undefined;
  };
  return w;
}
function policy(kind, parts, compile, vars) {
  const get = (k) => parts.filter((p) => p[0] === k).map((p) => p.slice(1)), [labels] = get("labels"), [inputs] = get("inputs");
  need(["table", "rules", "forest"].includes(kind) && labels && (kind === "rules" || inputs), `policies of kind ${kind} are not read here`);
  const names = labels.map(label), column = (inputs || []).map((e) => compile(e)), read = (s) => column.map((e) => Math.fround(double(e(s))));
  const known = (l) => { const i = names.indexOf(label(l)); return need(i >= 0, `unknown output ${l}`) && names.map((_, k) => Number(k === i)); };
  const none = () => fail(ModelError, "the policy has no answer");
  if (kind === "rules") {
    const rules = get("rule").map(([c, l]) => [compile(c), known(l)]);
    const near = (v) => { const f = Math.fround(Number(v)); need(Number.isFinite(f), "a value beyond float32"); return Number.isInteger(f) ? BigInt(f) : f; };
    return { labels: names, scores: (s) => (rules.find(([c]) => truth(c(s.map(near)))) || none())[1] };
  }
  if (kind === "table") {
    const said = (a) => (isQ(a) ? need(a[0] === "scores" && a.length === names.length + 1, "scores") && a.slice(1).map(Number) : known(a));
    const place = (k) => need(k.length === column.length, "a row") && k.map((v) => Math.fround(Number(v))).join();
    const table = new Map(get("row").map(([k, a]) => [place(k), said(a)])), [other] = get("default");
    need(table.size === get("row").length, "a row stands twice");
    return { labels: names, scores: (s) => table.get(read(s).join()) || (other ? said(other[0]) : none()) };
  }
  const [[how, less]] = get("arithmetic"), [base] = get("base"), [divide] = get("divide"), single = how === "float32", round = single ? Math.fround : (v) => v;
  const number = (v) => big(v) || typeof v === "number", place = (i, n) => need(big(i) && i >= 0n && i < n, "a place in the forest") && Number(i);
  need(less === { float32: "<", float64: "<=" }[how] && base && base.length === names.length && base.every(number), "arithmetic or base");
  const node = (n, all) => {  // the leaves of a tree for all outputs are lists of numbers, so what stands third tells them from nodes
    if (all ? isQ(n) && !isQ(n[2]) : !isQ(n)) {
      const values = all ? n : [n]; need(values.length === (all ? names.length : 1) && values.every(number), "a leaf");
      return () => values.map(Number);
    }
    const i = place(n[0], column.length), limit = Number(n[1]), left = node(n[2], all), right = node(n[3], all), zero = n[4];
    return (x) => ((zero && Math.abs(x[i]) <= Math.fround(1e-35) ? zero === "left" : single ? x[i] < limit : x[i] <= limit) ? left : right)(x);
  };
  const trees = get("tree").map(([k, n]) => ({ from: k === "*" ? 0 : place(k, names.length), values: node(n, k === "*") }));
  return { labels: names, scores: (s) => {
    const x = read(s), sums = base.map(Number);
    for (const t of trees) t.values(x).forEach((v, i) => { sums[t.from + i] = round(sums[t.from + i] + v); });
    return divide ? sums.map((v) => round(v / Number(divide[0]))) : sums;
  } };
}

function moves(w, enabled, action) {  // the operators of which any may move where `action` (null: nothing) is chosen
  if (w.chance) return action === null ? enabled : [];
  if (action === null) return enabled.some((o) => o.label !== null) ? [] : enabled;
  return enabled.some((o) => o.label === action) ? enabled.filter((o) => o.label === action || o.label === null) : [];
}
function safePolicy(w, ev, states, actions) {
  const keys = new Set(states.map(w.key)), starts = ev.start;
  need(keys.size === states.length, "a state is listed twice");
  need(isQ(starts) && starts.length && starts.every((i) => big(i) && i >= 0n && i < states.length), "start: places of listed states are needed");
  states.forEach((s, i) => {
    const ends = w.ends(s), where = `in state ${w.key(s)}`;
    if (ends === "fail") fail(Rejected, `outcomes: a fail state, ${where}`);
    if (ends === "goal") return;
    const enabled = w.enabled(s);
    if (!enabled.length) { if (w.avoid.includes("deadlock")) fail(Rejected, `ends of runs: a deadlock, ${where}`); return; }
    const may = moves(w, enabled, actions[i]);
    if (!may.length) fail(Rejected, `labels: ${actions[i]} is no choice, ${where}`);
    if (!may.every((o) => o.outcomes.every((k) => keys.has(k)))) fail(Rejected, `outcomes: one is not listed, ${where}`);
  });
  return `the listed actions lead from ${starts.length} states to no fail state; ${states.length} states`;
}
function run(w, ev, states, actions) {
  const n = actions.length, asked = w.policy && !w.chance, last = states[n];
  need(states.length === n + 1, "one state more than actions is needed"); need(["fail", "deadlock", "stuck"].includes(ev.end), "end");
  if (!w.start(states[0])) fail(Rejected, "starts: the first is no start state");
  for (let i = 0; i < n; i++) {
    const s = states[i], where = `in step ${i + 1}`, enabled = w.ends(s) ? [] : w.enabled(s);
    if (!enabled.length) fail(Rejected, `ends of runs: the run ends before, ${where}`);
    if (asked) {
      const chosen = w.chosen(s, enabled);
      if (chosen === undefined) fail(Rejected, `ends of runs: the policy is stuck, ${where}`);
      if (actions[i] !== null && actions[i] !== chosen) fail(Rejected, `labels: the policy does not choose ${actions[i]}, ${where}`);
    }
    const may = enabled.filter((o) => (w.chance ? actions[i] === null : o.label === actions[i])), next = w.key(states[i + 1]);
    if (!may.some((o) => o.outcomes.includes(next))) fail(Rejected, `outcomes: no such step, ${where}`);
  }
  const ends = w.ends(last), enabled = ends ? [] : w.enabled(last);
  const end = ends || (!enabled.length ? "deadlock" : asked && w.chosen(last, enabled) === undefined ? "stuck" : "none");
  if (end !== ev.end) fail(Rejected, `ends of runs: ${end} instead of ${ev.end}`);
  return `there is a run of ${n} steps that ends with ${end}`;
}
function judge(worldFile, evidenceFile) {
  const bytes = readFileSync(worldFile), raw = readFileSync(evidenceFile);
  const w = world(utf8(bytes)), ev = json(utf8(raw[0] === 31 && raw[1] === 139 ? gunzipSync(raw) : raw));
  need(ev.format === "evidence/2" && ["run", "safe-policy"].includes(ev.kind), "evidence/2 of kind run or safe-policy is needed");
  if (ev.flat_sha256 !== createHash("sha256").update(bytes).digest("hex")) fail(Rejected, "flat_sha256: the evidence is about another text");
  const key = ev.kind === "run" ? "actions" : "action"; need(isQ(ev.states) && ev.states.length, "states are needed");
  const beside = ev.states.map((s) => !isQ(s) && "state" in s), states = ev.states.map((s, i) => w.state(beside[i] ? s.state : s));
  const actions = ev[key] || ev.states.map((s) => s.action);
  need(isQ(actions) && (key === "actions" || actions.length === states.length), `${key}: one beside each state is needed`);
  need(actions.every((a) => a === null || typeof a === "string"), `${key}: labels or null are needed`);
  return (ev.kind === "run" ? run : safePolicy)(w, ev, states, actions);
}
try { console.log(`accepted: ${judge(...process.argv.slice(2))}`); } catch (e) {
  const no = e instanceof Rejected || e instanceof ModelError;  // what is no text of the formats may fail in any way while it is read
  console.log(`${no ? "rejected" : "refused"}: ${e.message}`); process.exitCode = no ? 10 : 30;
}
