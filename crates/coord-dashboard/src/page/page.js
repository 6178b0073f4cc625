// The page of coord dashboard. It shows what the program says and decides nothing: sentences, groups, their order and the
// commands come ready-made. All text from elsewhere goes into text nodes.

const $ = (id) => document.getElementById(id);
const SILENCE_MS = 2500; // a line comes each second; without one the connection is lost
const AGAIN_MS = 1000; // between two attempts to connect
const KEPT_MS = 2000; // rows stay in their places for so long after a key
const FOLDED = new Set(["IDLE", "ENDED"]); // groups that a phone shows folded
const wide = matchMedia("(min-width: 1180px)");
const phone = matchMedia("(max-width: 759px)");

let token = ""; // in this tab's memory only
let acts = false;
let lastId = ""; // the moment that this page knows
let session = ""; // the session that is open
let previous = ""; // the one that was open before it
let groups = [];
let rows = new Map(); // what is known of each row
let requests = [];
const outcomes = new Set(); // the needs that were answered here
let heardAt = 0;
let keyAt = -KEPT_MS; // when a key was pressed last
let isLost = true;
let connection = null;
let watchdog = 0;

/** An element with text and children; a text is never read as markup. */
function make(name, classes = "", ...children) {
  const element = document.createElement(name);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* ---- Asking ---- */

async function ask(path, body) {
  const headers = { "coord-token": token };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers, body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "omit", cache: "no-store", redirect: "error",
  });
  if (!answer.ok) {
    const words = (await answer.text()).trim();
    if (answer.status === 401) end(words);
    throw new Error(words);
  }
  return answer.json();
}

async function trade(code) {
  const answer = await ask("/api/token", { code });
  token = answer.token;
  acts = answer.acts;
  $("enter").hidden = true;
  $("app").hidden = false;
  follow();
}

function end(words) {
  token = "";
  connection?.abort();
  clearInterval(watchdog);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  $("app").hidden = true;
  $("ended").hidden = false;
  setText($("ended"), words);
}

/* ---- Following what happens ---- */

const shown = () => new Promise((done) => {
  if (!document.hidden) return done();
  document.addEventListener("visibilitychange", function now() {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", now);
    done();
  });
});
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function follow() {
  while (token) {
    await shown();
    heardAt = performance.now();
    clearInterval(watchdog);
    watchdog = setInterval(listen, 250);
    connection = new AbortController();
    const own = connection;
    await read(own.signal).catch(() => {});
    if (!document.hidden && token && !own.signal.reason?.isRestart) {
      lose(null);
      await pause(AGAIN_MS);
    }
  }
}

async function read(signal) {
  const query = `session=${encodeURIComponent(session)}&from=${encodeURIComponent(lastId)}`;
  const answer = await fetch(`/api/stream?${query}`, {
    headers: { "coord-token": token }, credentials: "omit", cache: "no-store", redirect: "error", signal,
  });
  if (answer.status === 401) return end((await answer.text()).trim());
  if (!answer.ok) throw new Error();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heardAt = performance.now();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) take(JSON.parse(line));
  }
}

/** Restarts the stream, for another session. */
function restart() {
  connection?.abort({ isRestart: true });
}

/** Notices that nothing comes any more. */
function listen() {
  if (!document.hidden && SILENCE_MS < performance.now() - heardAt) connection?.abort();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return;
  clearInterval(watchdog);
  connection?.abort();
});

function lose(words) {
  const clock = new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const said = words ?? `Connection lost at ${clock}. Shown is what was known then. Retrying.`;
  if (!isLost || words !== null) setText($("lost"), said);
  isLost = true;
  if (lastId) $("lost").hidden = false;
  document.body.classList.add("is-lost");
  enable();
}

function found() {
  if (!isLost) return;
  isLost = false;
  $("lost").hidden = true;
  document.body.classList.remove("is-lost");
  enable();
}

/** Buttons that act are off while nothing is known for certain. */
function enable() {
  for (const button of document.querySelectorAll("[data-acts]")) button.disabled = isLost;
}

function take(update) {
  if (update.ended) return end(update.ended);
  lastId = update.id;
  if (update.is_whole) rows = new Map();
  for (const [id, row] of Object.entries(update.rows ?? {})) rows.set(id, row);
  if (update.groups) groups = update.groups;
  if (document.title !== update.title) document.title = update.title;
  setText($("needs"), update.summary[0]);
  setText($("others"), update.summary[1]);
  show($("nothing"), update.nothing);
  show($("more"), update.more);
  $("none-open").hidden = !groups.length || session !== "";
  if (update.lost) lose(update.lost); else found();
  if (!session && !phone.matches && groups.length) open(groups[0].rows[0]);
  drawList(update.rows ?? {}, update.groups || update.is_whole || (update.rows && (byDirectory || $("filter").value)));
  if (update.requests) drawRequests(update.requests);
  if (update.session.is === "changed") drawSession(update.session.view);
  if (update.session.is === "none" && session) gone();
  if (update.say) setText($("say"), update.say.join(". "));
}

function show(element, text) {
  if (element.hidden !== !text) element.hidden = !text;
  setText(element, text);
}

/* ---- The list ---- */

const drawn = new Map(); // rows by id
const sections = new Map(); // groups and directories, by what they are and their heads

let placing = 0; // the timer after which rows are put where they belong

/** Draws the rows that changed. Rows move only if groups changed, or if the filter may let other rows pass. */
function drawList(changed, isArranged) {
  for (const [id, row] of Object.entries(changed)) fillRow(rowOf(id), row);
  if (!isArranged) return;
  clearTimeout(placing);
  const since = performance.now() - keyAt;
  if (since < KEPT_MS) {
    placing = setTimeout(place, KEPT_MS - since);
  } else {
    place();
  }
}

function rowOf(id) {
  let row = drawn.get(id);
  if (row) return row;
  const cell = (name, classes, role = "cell") => {
    const one = make(name, classes);
    one.setAttribute("role", role);
    return one;
  };
  row = cell("tr", "row", "row");
  const name = cell("th", "", "rowheader");
  name.scope = "row";
  const button = make("button", "open", make("span", "sign"), make("span", "name"));
  button.firstChild.setAttribute("aria-hidden", "true");
  button.addEventListener("click", () => open(id, true));
  name.append(button);
  row.append(name, cell("td", "state"), cell("td", "age"), cell("td", "what"));
  row.dataset.id = id;
  drawn.set(id, row);
  return row;
}

function fillRow(element, row) {
  const part = (name) => element.querySelector(`.${name}`);
  setText(part("sign"), row.sign);
  setText(part("name"), row.name);
  setText(part("state"), row.state);
  setText(part("age"), row.age);
  const key = JSON.stringify([row.what, row.place, row.hint]);
  if (element.key !== key) {
    element.key = key;
    const place = row.place ? make("span", "place", (row.what ? " · " : "") + row.place) : null;
    part("what").replaceChildren(row.what, ...(place ? [place] : []), ...(row.hint ? [make("span", "hint", row.hint)] : []));
  }
  const classes = `row tone-${row.tone}`;
  if (element.className !== classes) element.className = classes;
}

let byDirectory = false;

/** The groups, or the directories in the order of their first sessions. */
function shownGroups() {
  if (!byDirectory) return groups;
  const directories = new Map();
  for (const id of groups.flatMap((group) => group.rows)) {
    const head = rows.get(id)?.directory || "NO DIRECTORY";
    if (!directories.has(head)) directories.set(head, { head, needs_you: false, is_directory: true, rows: [] });
    directories.get(head).rows.push(id);
  }
  return [...directories.values()];
}

function groupByDirectory() {
  byDirectory = !byDirectory;
  place();
}

/** Puts rows where they belong. What has the focus is not moved, so it keeps it. */
function place() {
  const filter = $("filter").value.trim().toLowerCase();
  const passes = (id) => {
    const row = rows.get(id);
    return row && (!filter || [row.name, row.state, row.directory].some((text) => text.toLowerCase().includes(filter)));
  };
  const kept = new Set();
  const shown = [];
  for (const group of shownGroups()) {
    const ids = group.rows.filter(passes);
    if (!ids.length) continue;
    shown.push(sectionOf(group));
    const section = sectionOf(group);
    setText(section.querySelector(".count"), `${ids.length}`);
    arrange(section.querySelector("tbody"), ids.map(rowOf));
    ids.forEach((id) => kept.add(id));
    if (section.parentNode !== $("groups")) $("groups").append(section);
  }
  arrange($("groups"), shown);
  const listed = new Set(groups.flatMap((group) => group.rows));
  for (const [id, row] of drawn) {
    const isCurrent = id === session;
    if (row.hasAttribute("aria-current") !== isCurrent) {
      if (isCurrent) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
    }
    if (!kept.has(id)) row.remove();
    if (!rows.has(id) || !listed.has(id)) drawn.delete(id);
  }
}

/** Makes these the children, moving as few as possible and never the one with the focus. */
function arrange(parent, wanted) {
  const set = new Set(wanted);
  for (const child of [...parent.children]) if (!set.has(child)) child.remove();
  let focused = document.activeElement;
  while (focused && focused.parentNode !== parent) focused = focused.parentNode;
  const focusedAt = focused ? wanted.indexOf(focused) : -1;
  for (let at = 0; at < focusedAt; at++) {
    if (parent.children[at] !== wanted[at]) parent.insertBefore(wanted[at], parent.children[at]);
  }
  for (let at = Math.max(focusedAt, 0); at < wanted.length; at++) {
    if (parent.children[at] !== wanted[at]) parent.insertBefore(wanted[at], parent.children[at] ?? null);
  }
}

function sectionOf(group) {
  const key = `${group.is_directory ? "directory" : "group"} ${group.head}`;
  let section = sections.get(key);
  if (section) return section;
  const button = make("button", "", make("span", "", group.head), make("span", "count"), make("span", "mark", "▸"));
  button.lastChild.setAttribute("aria-hidden", "true");
  const table = make("table");
  table.setAttribute("role", "table");
  table.setAttribute("aria-label", group.head);
  const head = make("tr");
  head.setAttribute("role", "row");
  for (const name of ["Session", "State", "Age", "What and where"]) {
    const cell = make("th", "", name);
    cell.setAttribute("role", "columnheader");
    head.append(cell);
  }
  const top = make("thead", "unseen", head);
  const body = make("tbody");
  for (const part of [top, body]) part.setAttribute("role", "rowgroup");
  table.append(top, body);
  const fold = (isOpen) => {
    button.setAttribute("aria-expanded", `${isOpen}`);
    table.hidden = !isOpen;
  };
  const foldBySize = () => fold(!(phone.matches && !group.is_directory && FOLDED.has(group.head)));
  foldBySize();
  phone.addEventListener("change", foldBySize);
  button.addEventListener("click", () => fold(table.hidden));
  const classes = group.is_directory ? " directory" : group.needs_you ? " needs" : "";
  section = make("section", `group${classes}`, make("h2", "", button), table);
  sections.set(key, section);
  return section;
}

/* ---- One session ---- */

/** Opens a session. With `isAsked` a person did, and on a phone the way back leads to the list. */
function open(id, isAsked = false) {
  if (isAsked && phone.matches && !document.body.classList.contains("is-open")) {
    history.pushState({ isOpen: true }, "");
  }
  if (isAsked) document.body.classList.add("is-open");
  if (id === session) return;
  [session, previous] = [id, session];
  setText($("session-said"), "");
  for (const part of ["explain", "history"]) {
    $(part).open = false;
    $(part).querySelector("tbody").replaceChildren();
  }
  const row = rows.get(id);
  if (row) drawSession({ name: row.name, state: row.state, since: row.age, needs: "", why: [], facts: [], evidence: [], acts: [] });
  place();
  placeCards();
  if (isAsked && phone.matches) scrollTo(0, 0); else $("session").scrollTop = 0;
  restart();
}

function close() {
  document.body.classList.remove("is-open");
  drawn.get(session)?.querySelector(".open").focus({ preventScroll: false });
}
$("back").addEventListener("click", () => (history.state?.isOpen ? history.back() : close()));
addEventListener("popstate", close);

function gone() {
  setText($("session-said"), "This session is not listed any more.");
  $("session-acts").replaceChildren();
}

function drawSession(view) {
  $("none-open").hidden = true;
  $("opened").hidden = false;
  setText($("session-name"), view.name);
  $("session-state").replaceChildren(
    make("span", "", `${view.state} for ${view.since}`), ...(view.needs ? [make("span", "badge", `! ${view.needs}`)] : []));
  fill($("why"), view.why.map(detail));
  fill($("facts"), view.facts.map(detail));
  fill($("evidence"), view.evidence.map((one) => line(one.source, one.fact, one.ago)));
  drawActs(view.acts);
}

let actsDrawn = "";
function drawActs(all) {
  const key = JSON.stringify([session, all]);
  if (key === actsDrawn) return;
  actsDrawn = key;
  $("session-acts").replaceChildren(...all.map((one) => {
    const button = make("button", "", one.label);
    button.dataset.acts = one.act;
    button.disabled = isLost;
    button.addEventListener("click", () => actOn(one));
    return button;
  }));
}

/** Shows lines; those that are as before are left alone, so that a selection and the focus stay. */
function fill(table, lines) {
  const body = table.querySelector("tbody");
  lines.forEach((one, at) => {
    const old = body.children[at];
    if (!old) body.append(one);
    else if (!old.isEqualNode(one)) old.replaceWith(one);
  });
  while (lines.length < body.children.length) body.lastChild.remove();
  table.hidden = !lines.length && table.id !== "";
}

function line(name, words, ago) {
  const head = make("th", "", name);
  head.scope = "row";
  const row = make("tr", name ? "" : "continued", head, make("td", "", words));
  if (ago !== undefined) row.append(make("td", "ago", ago));
  return row;
}

function detail(one) {
  if (!one.is_command) return line(one.name, one.words);
  const copy = make("button", "copy", "copy");
  copy.dataset.copy = one.words;
  copy.setAttribute("aria-label", `copy ${one.words}`);
  return line(one.name, make("div", "command", make("code", "", one.words), copy));
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(button.previousSibling);
  }
});

async function reveal(part, path, show) {
  const body = $(part).querySelector("tbody");
  const of = session;
  try {
    const lines = await ask(`${path}?session=${encodeURIComponent(of)}`);
    if (of === session) fill($(part).querySelector("table"), lines.map(show));
  } catch (error) {
    body.replaceChildren(line("", error.message));
  }
}
$("explain").addEventListener("toggle", () =>
  $("explain").open && reveal("explain", "/api/explain", (one) => line(one.name, one.words, one.ago)));
$("history").addEventListener("toggle", () =>
  $("history").open && reveal("history", "/api/history", (one) => {
    const words = make("span", "", make("span", "title", one.title), one.words ? ` ${one.words}` : "");
    return line(one.time, words);
  }));
