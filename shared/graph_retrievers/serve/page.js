/* The page of a search. Texts of documents reach it as data and are shown by textContent alone. */
"use strict";

const byId = (id) => document.getElementById(id);
const given = byId("data").textContent ? JSON.parse(byId("data").textContent) : null;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const narrow = matchMedia("(max-width: 899px)");
// One search a retriever: name -> {picture} or {error} or {waiting}.
let searches = new Map(), shownName = "", cy = null, place = 0, playing = 0, running = null, reading = 0, index = null;

/* ---- Elements ---------------------------------------------------------------------------------------------------------------- */

// Characters that control a terminal or turn the direction of what follows, and halves of surrogate pairs, are written as codes.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\p{Surrogate}/gu;
const visible = (text) => String(text).replace(/\r\n/g, "\n").replace(CONTROLS, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function make(name, more = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(more)) {
    if (key === "text") element.textContent = visible(value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter(Boolean));
  return element;
}

const one = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const number = (score) => (score === null ? "" : String(Number(Number(score).toPrecision(4))));
const time = (seconds) => (seconds >= 1 ? `${seconds.toFixed(1)} s` : `${(1000 * seconds).toFixed(seconds < 0.001 ? 2 : seconds < 0.01 ? 1 : 0)} ms`);
const cut = (text, length) => (text.length > length ? text.slice(0, length - 1).replace(/\p{Surrogate}$/u, "") + "…" : text);
const say = (text) => { byId("status").textContent = visible(text); if (text) setTimeout(() => say(""), 6000); };

async function ask(path, body, signal) {
  const options = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`api/${path}`, { ...options, signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `The server answered ${answer.status}.`);
  return answer.headers.get("content-type").includes("json") ? answer.json() : answer.text();
}

/* ---- Search ------------------------------------------------------------------------------------------------------------------ */

function chosen() {
  return [...byId("retrievers").querySelectorAll(":checked")].map((box) => box.value);
}

function showIndex() {
  byId("about").textContent = visible(`${index.title}: ${one(index.nodes, "node")}, ${one(index.edges, "edge")}`);
  const wanted = new URLSearchParams(location.hash.slice(1));
  const names = (wanted.get("retrievers") || index.best).split(",").filter((name) => index.retrievers.includes(name));
  for (const name of index.retrievers) {
    const box = make("input", { type: "checkbox", value: name, checked: (names.length ? names : [index.best]).includes(name) });
    box.addEventListener("change", atMost);
    byId("retrievers").append(make("label", {}, box, make("span", { text: name })));
  }
  atMost();
  const needs = Object.entries(index.needs);
  if (needs.length) {
    byId("needs").hidden = false;
    byId("needs").firstElementChild.textContent = `${one(needs.length, "more retriever")} ${needs.length === 1 ? "needs" : "need"} what this index does not have`;
    byId("needs").lastElementChild.append(...needs.flatMap(([name, what]) => [make("dt", { text: name }), make("dd", { text: what })]));
  }
  byId("k").max = index.most_hits;
  byId("ask").hidden = false;
  byId("question").value = wanted.get("question") || "";
  if (wanted.get("k")) byId("k").value = wanted.get("k");
  if (byId("question").value && byId("ask").checkValidity()) search(); else byId("question").focus();
}

function atMost() {
  // Four columns are what a screen can hold.
  const full = chosen().length >= 4;
  for (const box of byId("retrievers").querySelectorAll("input")) box.disabled = full && !box.checked;
}

async function search() {
  const names = chosen(), question = byId("question").value, k = Number(byId("k").value);
  if (!names.length) return say("Choose a retriever.");
  if (running) running.abort();
  const mine = (running = new AbortController());
  history.replaceState(null, "", "#" + new URLSearchParams({ question, retrievers: names.join(","), k }));
  searches = new Map(names.map((name) => [name, { waiting: true }]));
  shownName = "";
  stop();
  byId("drawing").hidden = byId("side").hidden = true;
  showResults();
  await Promise.all(names.map(async (retriever) => {
    let found;
    try {
      found = { picture: await ask("search", { question, retriever, k }, mine.signal) };
    } catch (error) {
      if (mine.signal.aborted) return;
      found = { error: error.message };
    }
    if (mine !== running) return;
    searches.set(retriever, found);
    showResults();
    if (found.picture && !shownName) draw(retriever); else showDrawn();
  }));
  if (mine === running) byId("done").textContent = visible([...searches].map(([name, { picture }]) => `${name}: ${picture ? one(picture.hits.length, "hit") : "no answer"}`).join(", "));
}

/* ---- Hits -------------------------------------------------------------------------------------------------------------------- */

function showResults() {
  const many = searches.size > 1;
  byId("main").className = !searches.size ? "empty" : many ? "two" : "";
  byId("results").replaceChildren(...[...searches].map(([name, found]) => column(name, found)));
  if (!searches.size) {
    byId("results").append(make("p", { class: "welcome" }, make("strong", { text: "Ask a question" }),
      "You see what each retriever finds, and the way it went through the graph, step by step."));
  }
}

function column(name, { picture, error }) {
  const told = picture ? `${one(picture.hits.length, "hit")}, ${time(picture.seconds)}` : error ? "" : "searching …";
  const title = picture && searches.size > 1
    ? make("button", { type: "button", text: name, title: `Draw the search by ${name}`, onclick: () => draw(name) }) : make("span", { text: name });
  const head = make("header", {}, make("h2", {}, title), make("p", { text: told }));
  const made = make("section", { class: "column", "aria-label": `Hits of ${name}`, "data-name": name, "data-shown": String(name === shownName) }, head);
  if (error) made.append(make("p", { class: "note wrong", role: "alert", text: error }));
  if (!picture) return made;
  for (const note of picture.notes) made.append(make("p", { class: "note", text: note }));
  if (!picture.hits.length) made.append(make("p", { class: "note", text: "Nothing was found." }));
  made.append(make("ol", { class: "hits" }, ...picture.hits.map((hit, rank) => make("li", {}, make("button", {
    type: "button", "data-rank": rank, tabindex: rank ? -1 : 0, "aria-current": false, onclick: () => choose(name, rank),
    title: hit.similarity === null ? null : `cosine with the question: ${number(hit.similarity)}`,
  },
    make("span", { class: "rank", text: rank + 1 }),
    make("span", { class: "name", text: cut(hit.name, 120) }),
    make("span", { class: "score", text: number(hit.score) }),
    hit.path && hit.kind === "node" && make("span", { class: "way", text: cut(hit.path, 300) }),
    make("span", { class: "snippet", text: hit.text }),
  )))));
  return made;
}

function choose(name, rank) {
  const { picture } = searches.get(name), hit = picture.hits[rank];
  for (const button of byId("results").querySelectorAll(".hits button")) {
    const own = button.closest(".column").dataset.name === name && Number(button.dataset.rank) === rank;
    button.setAttribute("aria-current", own);
    if (button.closest(".column").dataset.name === name) button.tabIndex = own ? 0 : -1;
  }
  if (shownName !== name) draw(name);
  else if (place <= picture.rounds.length) go(picture.rounds.length + 1);
  light(hit.rows);
  read(hit.rows[hit.rows.length - 1], hit);
}

byId("results").addEventListener("keydown", (event) => {
  const button = event.target.closest(".hits button");
  if (!button) return;
  const columns = [...byId("results").querySelectorAll(".column")].filter((each) => each.querySelector(".hits button"));
  const own = columns.indexOf(button.closest(".column")), rank = Number(button.dataset.rank);
  const count = columns[own].querySelectorAll(".hits button").length;
  const to = { ArrowDown: [own, rank + 1], ArrowUp: [own, rank - 1], ArrowRight: [own + 1, rank], ArrowLeft: [own - 1, rank],
    Home: [own, 0], End: [own, count - 1] }[event.key];
  if (!to || !columns[to[0]]) return;
  event.preventDefault();
  const buttons = [...columns[to[0]].querySelectorAll(".hits button")];
  const next = buttons[Math.max(0, Math.min(to[1], buttons.length - 1))];
  for (const each of buttons) each.tabIndex = each === next ? 0 : -1;
  next.focus();
});

/* ---- Graph ------------------------------------------------------------------------------------------------------------------- */

// The question is in the middle. Around it, ring by ring, what was found from it: the hits, the nodes on their paths and those that a
// walk came by, each beside the node that it was reached from. The outermost dots were looked at, and led no further.
function layout(picture) {
  const parent = new Map(), children = new Map(), own = new Map(picture.nodes.map((node) => [node.row, node]));
  const above = (row, other) => { for (let at = other; at !== undefined; at = parent.get(at)) if (at === row) return true; return false; };
  const join = (row, near) => {
    if (own.has(row) && own.has(near) && !parent.has(row) && !above(row, near)) parent.set(row, near);
  };
  for (const hit of picture.hits) for (let n = 1; n < hit.rows.length; n++) join(hit.rows[n], hit.rows[n - 1]);
  const paths = new Set(picture.hits.flatMap((hit) => hit.rows));
  const found = new Set(paths);
  for (const call of picture.rounds.flatMap((round) => round.calls)) {
    for (const [row, , near] of call.found) if (near !== null && !found.has(row)) join(row, near);
    for (const [row] of call.found) found.add(row);
  }
  // What is found beyond the listed: along the edges that were walked.
  for (const edge of picture.edges) {
    if (edge.step === null) continue;
    if (!found.has(edge.target)) join(edge.target, edge.source);
    if (!found.has(edge.source)) join(edge.source, edge.target);
  }
  for (const { row } of picture.nodes) {
    if (!parent.has(row)) continue;
    if (children.has(parent.get(row))) children.get(parent.get(row)).push(row); else children.set(parent.get(row), [row]);
  }
  const tops = picture.nodes.map((node) => node.row).filter((row) => !parent.has(row));
  const tree = tops.filter((row) => paths.has(row) || children.has(row)), halo = tops.filter((row) => !paths.has(row) && !children.has(row));
  const weight = new Map();
  const order = [...tree];
  for (let at = 0; at < order.length; at++) order.push(...(children.get(order[at]) || []));
  for (const row of order.reverse()) {
    // Below its share, so that a node with many leaves behind it leaves room for others.
    weight.set(row, Math.max(1, (children.get(row) || []).reduce((sum, child) => sum + weight.get(child), 0) ** 0.6));
  }
  const at = new Map();
  let level = [], radius = 150;
  const spread = (rows, from, to, out) => {
    const share = (to - from) / rows.reduce((sum, row) => sum + weight.get(row), 0);
    for (const row of rows) {
      const end = from + share * weight.get(row);
      out.push({ row, from, to: end, angle: (from + end) / 2 });
      from = end;
    }
  };
  spread(tree, -Math.PI / 2, 1.5 * Math.PI, level);
  while (level.length) {
    const deep = Math.max(1, Math.ceil((level.length * 20) / (2 * Math.PI * radius)));
    level.forEach(({ row, angle }, n) => {
      const far = radius + (n % deep) * 22;
      at.set(row, { x: far * Math.cos(angle), y: far * Math.sin(angle), side: Math.abs(Math.sin(angle)) < 0.35 && children.has(row) ? "" : Math.cos(angle) < 0 ? "left" : "right" });
    });
    radius += (deep - 1) * 22 + 65;
    const next = [];
    for (const { row, from, to } of level) if (children.has(row)) spread(children.get(row), from, to, next);
    level = next;
  }
  for (let n = 0, far = Math.max(radius - 25, 80); n < halo.length; far += 13) {
    const room = Math.min(Math.floor((2 * Math.PI * far) / 13), halo.length - n);
    for (let m = 0; m < room; m++, n++) {
      const angle = (2 * Math.PI * m) / room - Math.PI / 2;
      at.set(halo[n], { x: far * Math.cos(angle), y: far * Math.sin(angle) });
    }
  }
  return { at, tree };
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ground", "paper", "ink", "quiet", "rule", "accent", "on-accent", "path", "now", "pale"].map(
    (name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function looks() {
  const c = colours(), font = getComputedStyle(document.body).fontFamily;
  return [
    { selector: "node", style: { width: 6, height: 6, "background-color": c.pale, "border-width": 0, "overlay-opacity": 0 } },
    { selector: "node.called", style: { label: "data(name)", color: c.ink, "font-family": font, "font-size": 4, "min-zoomed-font-size": 9, "text-valign": "bottom", "text-margin-y": 2, "text-wrap": "ellipsis",
      "text-max-width": 60, "text-outline-color": c.paper, "text-outline-width": 0.6 } },
    { selector: "node.path", style: { width: 14, height: 14, "background-color": c.paper, "border-width": 3, "border-color": c.path, "z-index": 3 } },
    { selector: "node.hit", style: { width: 20, height: 20, "background-color": c.accent, "border-width": 0, "z-index": 4 } },
    { selector: "node.left", style: { "text-halign": "left", "text-valign": "center", "text-margin-x": -4, "text-margin-y": 0 } },
    { selector: "node.right", style: { "text-halign": "right", "text-valign": "center", "text-margin-x": 4, "text-margin-y": 0 } },
    { selector: "node.added", style: { width: 12, height: 12, "background-color": c.quiet } },
    { selector: "node.question", style: { "font-family": font, width: 30, height: 30, "background-color": c.ink, label: "?", color: c.paper, "font-size": 18, "font-weight": 700,
      "text-valign": "center", "text-margin-y": 0, "text-outline-width": 0, "min-zoomed-font-size": 1, "z-index": 5 } },
    { selector: "edge", style: { width: 1, "line-color": c.pale, opacity: 0.45, "curve-style": "haystack", "overlay-opacity": 0 } },
    { selector: "edge.walked", style: { width: 1.4, opacity: 0.9 } },
    { selector: "edge.asked", style: { "line-style": "dotted", "line-color": c.quiet, opacity: 0.4 } },
    { selector: "edge.path", style: { width: 2.6, opacity: 1, "line-color": c.path, "curve-style": "straight", "target-arrow-shape": "triangle",
      "target-arrow-color": c.path, "arrow-scale": 0.8, label: "data(relation)", "font-family": font, "font-size": 7, "min-zoomed-font-size": 11,
      color: c.path, "text-outline-color": c.paper, "text-outline-width": 2, "text-rotation": "autorotate", "z-index": 2 } },
    { selector: "edge.name", style: { "line-style": "dashed", "target-arrow-shape": "none" } },
    { selector: "node.crowded", style: { "text-opacity": 0, "z-index": 1 } },
    { selector: "node.near", style: { "text-opacity": 1, "z-index": 7 } },
    { selector: ".later", style: { opacity: 0.08, "text-opacity": 0 } },
    { selector: "edge.later", style: { opacity: 0.03 } },
    { selector: "node.now", style: { "border-width": 3, "border-color": c.now, opacity: 1, "z-index": 6 } },
    { selector: "edge.now", style: { "line-color": c.now, opacity: 1, width: 2 } },
    { selector: "node.lit", style: { "border-width": 4, "border-color": c.now, opacity: 1, "text-opacity": 1, "z-index": 7 } },
  ];
}

// Cytoscape looks for the edges parallel to each edge that is added, through all edges of its source: 25 million looks for a hub
// of 5,000. Only curves of the kind "bezier" need them, and none is drawn here.
Object.getPrototypeOf(cytoscape({ headless: true }).collection()).parallelEdges = function () { return this; };

function draw(name) {
  stop();
  shownName = name;
  const { picture } = searches.get(name);
  byId("drawing").hidden = byId("side").hidden = false;
  const { at, tree } = layout(picture), few = picture.nodes.length <= 1500;
  const hits = new Map(picture.hits.filter((hit) => hit.kind === "node").map((hit, rank) => [hit.rows[hit.rows.length - 1], rank + 1]));
  const paths = new Set(picture.hits.flatMap((hit) => hit.rows));
  const nodes = picture.nodes.map((node) => ({
    group: "nodes", position: at.get(node.row),
    data: { id: `n${node.row}`, row: node.row, step: node.step, rank: hits.get(node.row), name: (hits.has(node.row) ? `${hits.get(node.row)} ` : "") + visible(cut(node.name, 40)) },
    classes: (few || paths.has(node.row) ? "called " : "") + (hits.has(node.row) ? "hit named " : paths.has(node.row) ? "path named " : "") + (paths.has(node.row) ? at.get(node.row).side || "" : ""),
  }));
  const edges = picture.edges.map((edge, n) => ({
    group: "edges", data: { id: `e${n}`, source: `n${edge.source}`, target: `n${edge.target}`, step: edge.step, relation: visible(cut(edge.relation, 30)) },
    classes: [edge.path && "path", edge.step !== null && "walked", !edge.edge && "name"].filter(Boolean).join(" "),
  }));
  const middle = [{ group: "nodes", data: { id: "question", name: "?" }, position: { x: 0, y: 0 }, classes: "question", grabbable: false }];
  const asked = tree.slice(0, 200).map((row) => ({
    group: "edges", data: { id: `q${row}`, source: "question", target: `n${row}` }, classes: "asked",
  }));
  if (cy) cy.destroy();
  cy = cytoscape({
    container: byId("graph"), elements: [], style: looks(), layout: { name: "preset" },
    minZoom: 0.02, maxZoom: 6, boxSelectionEnabled: false, autounselectify: true, hideEdgesOnViewport: !few, textureOnViewport: !few,
    pixelRatio: few ? "auto" : 1,
  });
  cy.batch(() => cy.add([...middle, ...nodes, ...asked, ...edges]));
  fit();
  cy.on("tap", "node[row]", (event) => { light([event.target.data("row")]); read(event.target.data("row"), null); });
  cy.on("mouseover", "node[row]", (event) => { byId("graph").title = event.target.data("name"); event.target.addClass("near"); });
  cy.on("mouseout", "node", (event) => { byId("graph").title = ""; event.target.removeClass("near"); });
  cy.on("zoom dragfree", labels);
  labels();
  byId("graph").setAttribute("aria-label", `Graph of the search by ${name}: ${one(picture.nodes.length, "node")}, ${one(picture.edges.length, "edge")}`);
  byId("place").max = picture.rounds.length + 1;
  showDrawn();
  showSteps();
  go(picture.rounds.length + 1);
  tab("steps");
  document.body.dataset.drawn = picture.nodes.length;
}

// As cy.fit() does, which measures every name first.
function fit() {
  const box = byId("graph"), wide = box.clientWidth, high = box.clientHeight;
  let [left, right, top, bottom] = [0, 0, 0, 0];
  cy.nodes().forEach((node) => {
    const { x, y } = node.position();
    left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
  });
  const level = Math.min(3, Math.max(wide - 220, wide / 2, 90) / Math.max(right - left, 1), Math.max(high - 60, 60) / Math.max(bottom - top, 1));
  cy.viewport({ zoom: level, pan: { x: wide / 2 - (level * (left + right)) / 2, y: high / 2 - (level * (top + bottom)) / 2 } });
}

function labels() {
  // Names of hits and of nodes on paths can be read at any zoom, as far as there is room, those of the best hits first; the others
  // under the pointer, when their node is chosen, or from nearer by.
  const size = Math.min(11 / cy.zoom(), 60), named = cy.nodes(".named"), rank = (node) => node.data("rank") || Infinity, taken = [];
  named.style({ "font-size": size, "text-max-width": 9 * size, "min-zoomed-font-size": 0, "text-outline-width": size / 5 });
  const crowded = named.toArray().sort((a, b) => rank(a) - rank(b)).filter((node) => {
    if (taken.length === 200) return true;
    const box = node.boundingBox({ includeNodes: false, includeOverlays: false });
    if (taken.some((other) => box.x1 < other.x2 && other.x1 < box.x2 && box.y1 < other.y2 && other.y1 < box.y2)) return true;
    taken.push(box);
    return false;
  });
  cy.batch(() => { named.removeClass("crowded"); crowded.forEach((node) => node.addClass("crowded")); });
}

function showDrawn() {
  byId("drawn").hidden = searches.size < 2;
  byId("drawn").replaceChildren(...[...searches].filter(([, { picture }]) => picture).map(([name]) =>
    make("button", { type: "button", "aria-pressed": String(name === shownName), text: name, onclick: () => draw(name) })));
  for (const each of byId("results").querySelectorAll(".column")) {
    each.dataset.shown = searches.size > 1 && each.dataset.name === shownName;
    const button = each.querySelector("h2 button");
    if (button) button.setAttribute("aria-pressed", each.dataset.name === shownName);
  }
  byId("whose").textContent = visible(`Search by ${shownName}`);
}

function light(rows) {
  cy.elements(".lit").removeClass("lit");
  const nodes = cy.collection(rows.map((row) => cy.getElementById(`n${row}`)).filter((node) => node.length));
  nodes.addClass("lit");
  const box = nodes.length && nodes.renderedBoundingBox({ includeLabels: false }), graph = byId("graph");
  if (!box || (box.x1 >= 0 && box.y1 >= 0 && box.x2 <= graph.clientWidth && box.y2 <= graph.clientHeight)) return;
  if (still.matches) cy.center(nodes); else cy.animate({ center: { eles: nodes }, duration: 250 });
}

/* ---- Replay ------------------------------------------------------------------------------------------------------------------ */

function go(to) {
  const { picture } = searches.get(shownName), count = picture.rounds.length;
  place = Math.max(1, Math.min(to, count + 1));
  const round = picture.rounds[place - 1], step = round ? round.step : Infinity;
  const now = new Set(round ? round.calls.flatMap((call) => call.found.map(([row]) => row)) : []);
  // All of a new drawing is there; to change 10,000 elements takes a while.
  if (round || cy.scratch("changed")) cy.batch(() => {
    cy.scratch("changed", Boolean(round));
    cy.elements().forEach((each) => {
      const { step: own, row, source } = each.data();
      const asked = source === "question" ? cy.getElementById(each.data("target")).data("step") : own;
      const unknown = asked === null || asked === undefined;
      // An edge that no step walked is shown with its ends.
      const later = each.isNode() ? row !== undefined && (unknown ? step < Infinity : asked > step)
        : unknown ? step < Infinity : asked > step;
      each.toggleClass("later", later);
      each.toggleClass("now", Boolean(round) && (each.isNode() ? own === step || now.has(row) : own === step));
    });
  });
  byId("place").value = place;
  byId("back").disabled = place === 1;
  byId("on").disabled = place === count + 1;
  const told = round ? `Step ${place} of ${count}: ${round.calls.map(callText).join("; ")}` : answerText(picture);
  byId("told").textContent = visible(told);
  byId("place").setAttribute("aria-valuetext", told);
  for (const button of byId("steps").querySelectorAll(".step")) {
    const own = Number(button.dataset.place) === place;
    button.setAttribute("aria-current", own ? "step" : "false");
    const list = button.nextElementSibling;
    if (list && list.classList.contains("list")) list.remove();
    if (own && round) button.after(foundList(round, picture));
    if (own && round && !byId("steps").hidden && !narrow.matches) button.scrollIntoView({ block: "nearest" });
  }
}

function callText(call) {
  const of = call.operator ? `${call.operator} asked for ${call.asked}` : `asked for ${call.asked}`;
  return call.count ? `${of}: ${one(call.count, "node")}` : of;
}

function answerText(picture) {
  const more = picture.left_out ? `; ${one(picture.left_out, "node")} more not drawn` : "";
  return `The answer: ${one(picture.hits.length, "hit")}; ${one(picture.nodes.length, "node")} looked at${more}`;
}

function showSteps() {
  const { picture } = searches.get(shownName);
  const rounds = picture.rounds.map((round, n) => make("li", {}, make("button", { type: "button", class: "step", "data-place": n + 1, onclick: () => { stop(); go(n + 1); } },
    make("b", { text: `Step ${n + 1}` }),
    ...round.calls.map((call) => make("span", { text: `${callText(call)}, ${time(call.seconds)}` })))));
  rounds.push(make("li", {}, make("button", { type: "button", class: "step", "data-place": rounds.length + 1, onclick: () => { stop(); go(picture.rounds.length + 1); } },
    make("b", { text: "The answer" }), make("span", { text: `${one(picture.hits.length, "hit")}, in all ${time(picture.seconds)}` }))));
  byId("steps").replaceChildren(make("ol", {}, ...rounds));
}

function foundList(round, picture) {
  const names = new Map(picture.nodes.map((node) => [node.row, node.name]));
  const list = make("ul", { class: "list" }), several = round.calls.filter((call) => call.found.length).length > 1;
  for (const call of round.calls) {
    if (several && call.found.length) list.append(make("li", { class: "of", text: `${callText(call)}:` }));
    for (const [row, score, near] of call.found.slice(0, 20)) {
      list.append(make("li", {},
        make("button", { type: "button", class: "link", text: cut(names.get(row), 80), onclick: () => { light([row]); read(row, null); } }),
        near !== null && make("span", { class: "of", text: `of ${cut(names.get(near), 40)}` }),
        score !== null && make("span", { class: "score", text: number(score) })));
    }
    if (call.count > 20) list.append(make("li", { class: "of", text: `and ${(call.count - 20).toLocaleString("en")} more` }));
  }
  return list;
}

function stop() {
  clearInterval(playing);
  playing = 0;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-label", "Play");
}

function play() {
  if (playing) return stop();
  const last = searches.get(shownName).picture.rounds.length + 1;
  go(place === last ? 1 : place + 1);
  byId("play").textContent = "Pause";
  byId("play").setAttribute("aria-label", "Pause");
  playing = setInterval(() => { go(place + 1); if (place === last) stop(); }, 1000);
}

byId("play").addEventListener("click", play);
byId("back").addEventListener("click", () => { stop(); go(place - 1); });
byId("on").addEventListener("click", () => { stop(); go(place + 1); });
byId("place").addEventListener("input", () => { stop(); go(Number(byId("place").value)); });

const zoom = (factor) => cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: byId("graph").clientWidth / 2, y: byId("graph").clientHeight / 2 } });
byId("nearer").addEventListener("click", () => zoom(1.4));
byId("farther").addEventListener("click", () => zoom(1 / 1.4));
byId("whole").addEventListener("click", () => fit());
byId("graph").addEventListener("keydown", (event) => {
  const act = { ArrowLeft: () => cy.panBy({ x: 40, y: 0 }), ArrowRight: () => cy.panBy({ x: -40, y: 0 }), ArrowUp: () => cy.panBy({ x: 0, y: 40 }),
    ArrowDown: () => cy.panBy({ x: 0, y: -40 }), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: () => fit() }[event.key];
  if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (cy) { cy.style(looks()); labels(); } });
new ResizeObserver(() => { if (cy) { cy.resize(); } }).observe(byId("graph"));

/* ---- A document -------------------------------------------------------------------------------------------------------------- */

function tab(name) {
  for (const each of ["steps", "document"]) {
    byId(each).hidden = each !== name;
    byId(`tab-${each}`).setAttribute("aria-selected", each === name);
    byId(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
}

for (const [name, other] of [["steps", "document"], ["document", "steps"]]) {
  byId(`tab-${name}`).addEventListener("click", () => tab(name));
  byId(`tab-${name}`).addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") { tab(other); byId(`tab-${other}`).focus(); }
  });
}

async function texts(row, start) {
  if (!given) return ask("read", { row, start });
  const node = given.picture.nodes.find((each) => each.row === row);
  return { ...node, text: given.texts[row] ?? "The text of this node is not part of this page.", next: null };
}

async function read(row, hit) {
  const mine = ++reading;
  tab("document");
  let node;
  try { node = await texts(row, 0); } catch (error) { return say(error.message); }
  if (mine !== reading) return;
  const text = make("p", { class: "text", text: node.text || "This node has no text." });
  const more = make("button", { type: "button", text: "Read on", hidden: node.next === null, onclick: async () => {
    more.disabled = true;
    try {
      const rest = await texts(row, node.next);
      text.append(visible(rest.text));
      node.next = rest.next;
      more.hidden = rest.next === null;
    } catch (error) { say(error.message); }
    more.disabled = false;
  } });
  const around = make("div", { class: "around" });
  byId("document").replaceChildren(...[
    make("h2", { class: "name", text: node.name }),
    make("p", { class: "facts", text: [node.type, node.id === node.name ? "" : node.id].filter(Boolean).join(" · ") }),
    hit && make("p", { class: "why", text: hit.why + (hit.similarity === null ? "" : `\ncosine with the question: ${number(hit.similarity)}`) }),
    text, more, around,
  ].filter(Boolean));
  byId("document").dataset.row = row;
  byId("document").scrollTop = 0;
  if (narrow.matches) byId("side").scrollIntoView({ behavior: still.matches ? "auto" : "smooth" });
  if (given) drawnNeighbors(row, around); else await neighbors(row, around, { direction: "both", relation: null, limit: 20 });
}

const arrow = (direction, relation) => (direction === "out" ? `—${relation}→ ` : `←${relation}— `);

function edgeItem({ row, name, relation, direction }) {
  return make("li", {}, make("span", { class: "of", text: arrow(direction, relation ? ` ${cut(relation, 40)} ` : "") }),
    make("button", { type: "button", class: "link", text: cut(name, 80), onclick: () => { light([row]); read(row, null); } }));
}

async function neighbors(row, around, wanted) {
  const mine = reading;
  let found;
  try { found = await ask("neighbors", { row, ...wanted }); } catch (error) { return say(error.message); }
  if (mine !== reading) return;
  const again = (more) => neighbors(row, around, { ...wanted, ...more });
  const select = (label, options, value, act) => {
    const made = make("select", { "aria-label": label, onchange: () => act(made.value) }, ...options.map(([key, text]) => make("option", { value: key, text })));
    made.value = value;
    return made;
  };
  const relations = Object.entries(found.relations);
  const names = relations.map(([name, count], n) => [String(n), `${cut(name || "without a relation", 40)} (${count})`]);
  const current = wanted.relation === null ? "" : String(relations.findIndex(([name]) => name === wanted.relation));
  around.replaceChildren(...[
    make("h3", { text: found.count ? one(found.count, "edge") : "No edges" }),
    make("div", { class: "choices", hidden: !relations.length },
      select("Direction", [["both", "both directions"], ["out", "from here"], ["in", "to here"]], wanted.direction, (direction) => again({ direction })),
      select("Relation", [["", "any relation"], ...names], current, (n) => again({ relation: n === "" ? null : relations[Number(n)][0] })),
      make("button", { type: "button", text: "Draw them", disabled: !found.edges.length, onclick: () => drawNeighbors(row, found.edges) })),
    make("ul", { class: "list" }, ...found.edges.map(edgeItem)),
    found.count > found.edges.length && wanted.limit < 500 && make("button", { type: "button", text: `Show more of ${found.count.toLocaleString("en")}`,
      onclick: () => again({ limit: Math.min(500, 5 * wanted.limit) }) }),
  ].filter(Boolean));
}

function drawnNeighbors(row, around) {
  const names = new Map(given.picture.nodes.map((node) => [node.row, node.name]));
  const edges = given.picture.edges.filter((edge) => edge.source === row || edge.target === row).map((edge) => {
    const far = edge.source === row ? edge.target : edge.source;
    return { row: far, name: names.get(far), relation: edge.relation, direction: edge.source === row ? "out" : "in" };
  });
  around.append(make("h3", { text: edges.length ? `${one(edges.length, "edge")} on this page` : "No edges on this page" }), make("ul", { class: "list" }, ...edges.map(edgeItem)));
}

function drawNeighbors(row, edges) {
  const own = cy.getElementById(`n${row}`), from = own.length ? own.position() : { x: 0, y: 0 };
  const away = Math.atan2(from.y, from.x), fresh = edges.filter((edge, n) => cy.getElementById(`n${edge.row}`).empty()
    && edges.findIndex((other) => other.row === edge.row) === n);
  const added = cy.collection();
  cy.batch(() => {
    if (own.empty()) added.merge(cy.add({ group: "nodes", data: { id: `n${row}`, row, name: visible(cut(byId("document").firstElementChild.textContent, 40)) }, position: from, classes: "added called named" }));
    fresh.forEach((edge, n) => {
      const room = 12, ring = Math.floor(n / room), wide = Math.min(fresh.length, room);
      const angle = away + (wide > 1 ? ((n % room) / (wide - 1) - 0.5) * 2.4 : 0), far = 70 + 34 * ring;
      added.merge(cy.add({ group: "nodes", data: { id: `n${edge.row}`, row: edge.row, name: visible(cut(edge.name, 40)) },
        position: { x: from.x + far * Math.cos(angle), y: from.y + far * Math.sin(angle) }, classes: "added called named" }));
    });
    edges.forEach((edge) => {
      const [source, target] = edge.direction === "out" ? [row, edge.row] : [edge.row, row], id = `a${source}-${target}-${edge.relation}`;
      if (cy.getElementById(id).empty() && cy.getElementById(`n${source}`).edgesTo(cy.getElementById(`n${target}`)).empty()) {
        cy.add({ group: "edges", data: { id, source: `n${source}`, target: `n${target}`, relation: visible(cut(edge.relation, 30)) }, classes: "walked" });
      }
    });
  });
  go(searches.get(shownName).picture.rounds.length + 1);
  light([row, ...edges.map((edge) => edge.row)]);
  say(fresh.length ? `${one(fresh.length, "node")} added to the graph.` : "All of them are drawn already.");
  document.body.dataset.drawn = cy.nodes("[row]").length;
}

/* ---- Export ------------------------------------------------------------------------------------------------------------------ */

async function save(format) {
  try {
    const rows = cy.nodes("[row]").map((node) => node.data("row")).slice(0, 5000);
    const found = given ? given.exports[format] : await ask("export", { rows, format });
    const text = typeof found === "string" ? found : JSON.stringify(found, null, 1);
    const url = URL.createObjectURL(new Blob([text], { type: format === "json" ? "application/json" : "application/xml" }));
    const link = make("a", { href: url, download: `search.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    say(`Saved as search.${format}.`);
  } catch (error) { say(error.message); }
}

byId("json").addEventListener("click", () => save("json"));
byId("graphml").addEventListener("click", () => save("graphml"));

/* ---- Start ------------------------------------------------------------------------------------------------------------------- */

byId("ask").addEventListener("submit", (event) => { event.preventDefault(); search(); });
showResults();
if (given) {
  const { picture } = given;
  byId("asked").hidden = false;
  byId("asked").textContent = visible(picture.question);
  document.title = visible(cut(picture.question, 80));
  searches = new Map([[picture.retriever, { picture }]]);
  showResults();
  draw(picture.retriever);
} else {
  ask("index").then((found) => { index = found; showIndex(); }, (error) => say(error.message));
}
