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
let groups = [];
let rows = new Map(); // what is known of each row
let requests = [];
let outcomes = new Map(); // by need: what came of an answer that was given here
let heardAt = 0;
let keyAt = 0;
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
  if (update.lost) lose(update.lost); else found();
  if (!session && !phone.matches && groups.length) open(groups[0].rows[0]);
  drawList(update.rows ?? {});
  if (update.requests) drawRequests(update.requests);
  if (update.session.is === "changed") drawSession(update.session.view);
  if (update.session.is === "none" && session) gone();
  if (update.say) setText($("say"), update.say.join(". "));
}

function show(element, text) {
  element.hidden = !text;
  setText(element, text);
}

/* ---- The list ---- */

const drawn = new Map(); // rows by id
const sections = new Map(); // groups by their heads

function drawList(changed) {
  for (const [id, row] of Object.entries(changed)) fillRow(rowOf(id), row);
  const since = performance.now() - keyAt;
  if (since < KEPT_MS) {
    setTimeout(() => place(), KEPT_MS - since);
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
  const place = row.place ? make("span", "place", (row.what ? " · " : "") + row.place) : null;
  part("what").replaceChildren(row.what, ...(place ? [place] : []), ...(row.hint ? [make("span", "hint", row.hint)] : []));
  element.className = `row tone-${row.tone}`;
}

/** Puts rows where they belong. What has the focus is not moved, so it keeps it. */
function place() {
  const filter = $("filter").value.trim().toLowerCase();
  const passes = (id) => {
    const row = rows.get(id);
    return row && (!filter || [row.name, row.state, row.directory].some((text) => text.toLowerCase().includes(filter)));
  };
  const kept = new Set();
  const heads = new Set();
  for (const group of groups) {
    const ids = group.rows.filter(passes);
    if (!ids.length) continue;
    heads.add(group.head);
    const section = sectionOf(group);
    setText(section.querySelector(".count"), `${ids.length}`);
    arrange(section.querySelector("tbody"), ids.map(rowOf));
    ids.forEach((id) => kept.add(id));
    if (section.parentNode !== $("groups")) $("groups").append(section);
  }
  arrange($("groups"), groups.filter((group) => heads.has(group.head)).map(sectionOf));
  for (const [id, row] of drawn) {
    row.toggleAttribute("aria-current", false);
    if (id === session) row.setAttribute("aria-current", "true");
    if (!kept.has(id)) row.remove();
    if (!rows.has(id) || !groups.some((group) => group.rows.includes(id))) drawn.delete(id);
  }
}

/** Makes these the children, moving as few as possible and never the one with the focus. */
function arrange(parent, wanted) {
  const set = new Set(wanted);
  for (const child of [...parent.children]) if (!set.has(child)) child.remove();
  const focused = wanted.findIndex((child) => child.contains(document.activeElement) && child.parentNode === parent);
  for (let at = 0; at < focused; at++) {
    if (parent.children[at] !== wanted[at]) parent.insertBefore(wanted[at], parent.children[at]);
  }
  for (let at = Math.max(focused, 0); at < wanted.length; at++) {
    if (parent.children[at] !== wanted[at]) parent.insertBefore(wanted[at], parent.children[at] ?? null);
  }
}

function sectionOf(group) {
  let section = sections.get(group.head);
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
  fold(!(phone.matches && FOLDED.has(group.head)));
  button.addEventListener("click", () => fold(table.hidden));
  section = make("section", group.needs_you ? "group needs" : "group", make("h2", "", button), table);
  sections.set(group.head, section);
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
  session = id;
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

/* ---- Requests ---- */

const cards = new Map(); // by need

function drawRequests({ open: all, why_none }) {
  for (const [need, card] of cards) {
    if (!all.some((one) => one.need === need)) overCard(need, card);
  }
  requests = all;
  for (const one of all) drawCard(one);
  setText($("no-requests"), why_none || "No open requests.");
  placeCards();
}

/** A request that is over stays while somebody looks at it, with what came of it. */
function overCard(need, card) {
  const isLooked = card.request.session === session || outcomes.has(need);
  if (!isLooked) {
    card.remove();
    cards.delete(need);
    return;
  }
  if (card.classList.contains("is-over")) return;
  card.classList.add("is-over");
  if (!outcomes.has(need)) tell(card, "Over: answered at the terminal.");
}

function tell(card, words) {
  card.querySelector(".buttons")?.remove();
  let outcome = card.querySelector(".outcome");
  if (!outcome) card.append(outcome = make("p", "outcome"));
  outcome.setAttribute("role", "status");
  setText(outcome, words);
}

function drawCard(one) {
  const { age, ...fixed } = one;
  const key = JSON.stringify(fixed);
  const old = cards.get(one.need);
  if (old?.key === key) return setText(old.querySelector(".age"), age);
  if (old && outcomes.has(one.need)) return;
  const card = make("article", "card");
  [card.key, card.request] = [key, one];
  card.append(make("h3", "", make("span", "", `${one.name} ${one.title}`), make("span", "age", age)));
  card.append(make("p", "place", one.place));
  if (one.input.length) card.append(inputOf(one));
  one.questions.forEach((question, at) => card.append(questionOf(one, question, at)));
  if (one.why_not) card.append(make("p", "", one.why_not));
  if (acts && one.choices.length) {
    card.append(make("div", "buttons", ...one.choices.map((choice) => {
      const button = make("button", choice.is_main ? "main" : "", choice.label);
      button.dataset.acts = choice.is_main ? "allow" : "deny";
      button.disabled = isLost;
      button.addEventListener("click", () => reply(card, choice));
      return button;
    })));
  } else if (one.choices.length) {
    card.append(make("p", "dim", "Answering needs coordctl dashboard."));
  }
  card.append(make("p", "terminal", "At the terminal: ", make("code", "", one.terminal)));
  old?.replaceWith(card);
  cards.set(one.need, card);
}

function inputOf(one) {
  const input = make("pre", "input", one.input.join("\n"));
  input.tabIndex = 0;
  input.setAttribute("role", "region");
  input.setAttribute("aria-label", `What ${one.name} asks for`);
  return input;
}

function questionOf(one, question, at) {
  const set = make("fieldset", "", make("legend", "", question.question));
  const option = (value, label, meaning) => {
    const box = make("input");
    box.type = question.is_several ? "checkbox" : "radio";
    box.name = `${one.need}-${at}`;
    box.value = value;
    const words = make("span", "", label, meaning ? make("span", "meaning", meaning) : null);
    return make("label", "option", box, words);
  };
  question.options.forEach((each, n) => set.append(option(`${n + 1}`, each.label, each.description)));
  const other = option("other", "Other");
  const text = make("input", "other");
  text.setAttribute("aria-label", `Other answer to: ${question.question}`);
  text.addEventListener("input", () => { other.firstChild.checked = text.value !== ""; });
  set.append(make("div", "line", other, text));
  return set;
}

/** What was chosen, a value for each question. */
function answersOf(card) {
  return [...card.querySelectorAll("fieldset")].map((set) => {
    const chosen = [...set.querySelectorAll("input:checked")].map((box) => box.value);
    if (chosen.includes("other")) return { text: set.querySelector(".other").value };
    return { options: chosen.map(Number) };
  });
}

/** Where there is room, all requests stand beside the session; else those of the session stand above it. */
function placeCards() {
  const own = ([, card]) => card.request.session === session;
  const all = [...cards];
  const here = wide.matches ? [...all.filter(own), ...all.filter((one) => !own(one))] : all.filter(own);
  const into = wide.matches ? $("all-requests") : $("own-requests");
  (wide.matches ? $("own-requests") : $("all-requests")).replaceChildren();
  arrange(into, here.map(([, card]) => card));
  $("no-requests").hidden = !wide.matches || here.length > 0;
  enable();
}
wide.addEventListener("change", placeCards);

async function reply(card, choice) {
  const { need, hook, input } = card.request;
  const what = { act: "reply", need, hook, reply: choice.reply };
  if (choice.reply === "answer") what.answers = answersOf(card);
  let title = choice.question;
  if (!title) {
    const asked = await act(what, true).catch((error) => ({ lines: [error.message] }));
    if (!asked.is_done) return tellBeside(card, asked.lines.join("\n"));
    title = asked.lines.join("\n");
  }
  tellBeside(card, "");
  const body = input.length ? [make("pre", "input", input.join("\n"))] : [];
  const message = choice.takes_message ? make("textarea") : null;
  if (message) body.push(make("label", "", "What the agent reads (optional)", message));
  const acted = await confirm(title, body, choice.confirm, () =>
    act(message?.value ? { ...what, message: message.value } : what, false));
  if (!acted) return;
  outcomes.set(need, true);
  tell(card, acted.lines.join("\n"));
}

function tellBeside(card, words) {
  let error = card.querySelector(".error");
  if (!error) card.querySelector(".buttons")?.before(error = make("p", "error"));
  error?.setAttribute("role", "alert");
  if (error) setText(error, words);
}

/* ---- Acting ---- */

/** Acts, after the passphrase where it is needed. */
async function act(what, isDry) {
  for (;;) {
    const answer = await ask("/api/act", { dry_run: isDry, what });
    if (answer.is === "said") return answer.acted;
    const field = make("input");
    field.type = "password";
    field.autocomplete = "off";
    const given = await confirm("Passphrase (once per 8 h)", [make("label", "", "Passphrase", field)], "Unlock", () =>
      ask("/api/passphrase", { passphrase: field.value }));
    field.value = "";
    if (!given) throw new Error("Nothing was sent.");
  }
}

let asked = null; // what the dialog shows

/** Asks a person, and does it. Resolves with what came of it, or with null if it was cancelled. What asks meanwhile, such
 *  as for the passphrase, goes first. */
function confirm(title, body, label, perform) {
  const [dialog, button, error] = [$("dialog"), $("confirm"), $("dialog-error")];
  const [below, before] = [asked, document.activeElement];
  const own = { isBusy: false, error: "" };
  const draw = () => {
    setText($("dialog-title"), title);
    setText(error, own.error);
    setText(button, own.isBusy ? "Sending…" : label);
    button.disabled = own.isBusy;
    $("dialog-body").replaceChildren(...body);
  };
  own.draw = draw;
  asked = own;
  draw();
  if (!dialog.open) dialog.showModal();
  ($("dialog-body").querySelector("input, textarea") ?? $("cancel")).focus();
  return new Promise((done) => {
    const listening = new AbortController();
    const finish = (value) => {
      listening.abort();
      asked = below;
      if (below) return below.draw(), done(value);
      dialog.close();
      if (before?.isConnected) before.focus({ preventScroll: true });
      done(value);
    };
    const on = (element, event, handle) => element.addEventListener(event, (what) => {
      what.preventDefault();
      if (asked === own) handle();
    }, { signal: listening.signal });
    on(dialog, "cancel", () => finish(null));
    on($("cancel"), "click", () => finish(null));
    on(dialog.querySelector("form"), "submit", async () => {
      if (isLost || own.isBusy) return;
      [own.isBusy, own.error] = [true, ""];
      draw();
      const [value, why] = await perform().then((value) => [value, ""], (error) => [null, error.message]);
      [own.isBusy, own.error] = [false, why];
      if (why) draw(); else finish(value);
    });
  });
}

async function actOn({ act: verb, label }) {
  const what = { act: verb, session };
  const title = `${label.replace("…", "")}: ${rows.get(session)?.name ?? ""}`;
  const of = session;
  let body = [];
  let text = null;
  try {
    if (!acts) throw new Error("Answering needs coordctl dashboard.");
    if (verb === "send") {
      text = make("textarea");
      body = [make("label", "", "Message", text)];
    } else {
      const would = await act(what, true);
      if (!would.is_done) throw new Error(would.lines.join("\n"));
      body = would.lines.map((words) => make("p", "", words));
    }
    const acted = await confirm(title, body, label.replace("…", ""), () =>
      act(text ? { ...what, text: text.value } : what, false));
    if (acted && of === session) setText($("session-said"), acted.lines.join("\n"));
  } catch (error) {
    if (of === session) setText($("session-said"), error.message);
  }
}

/* ---- Keys ---- */

const listed = () => [...document.querySelectorAll("#groups table:not([hidden]) .row .open")];

function move(by) {
  const all = listed();
  const at = all.indexOf(document.activeElement);
  const from = at < 0 ? all.findIndex((one) => one.closest(".row").dataset.id === session) - Math.sign(by) : at;
  all[Math.max(0, Math.min(all.length - 1, from + by))]?.focus();
}

function nextNeed() {
  const ids = groups.filter((group) => group.needs_you).flatMap((group) => group.rows);
  if (ids.length) open(ids[(ids.indexOf(session) + 1) % ids.length], true);
}

/** The card of the session that is open, else the one with the focus. */
function ownCard() {
  const focused = document.activeElement.closest?.(".card");
  return focused ?? [...cards.values()].find((card) => card.request.session === session && !card.classList.contains("is-over"));
}

function choose(n) {
  const box = ownCard()?.querySelectorAll("fieldset input[type=radio], fieldset input[type=checkbox]")[n - 1];
  box?.click();
  box?.focus();
}

const KEYS = {
  j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
  g: () => move(-1e6), G: () => move(1e6), n: nextNeed,
  "/": () => $("filter").focus(),
  Escape: () => ($("filter").value ? ($("filter").value = "", place()) : $("back").click()),
  e: () => $("explain").querySelector("summary").click(),
  v: () => $("history").querySelector("summary").click(),
  m: () => document.querySelector('#session-acts [data-acts="send"]')?.click(),
  a: () => ownCard()?.querySelector('[data-acts="allow"]')?.click(),
  d: () => ownCard()?.querySelector('[data-acts="deny"]')?.click(),
  "?": () => $("keys").click(),
};

document.addEventListener("keydown", (event) => {
  if (!token || !$("keys-on").checked || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const isTyped = event.target.matches("input:not([type=radio]):not([type=checkbox]), textarea");
  if (isTyped) {
    if (event.key === "Escape") event.target.blur();
    if (event.key !== "Escape" || event.target !== $("filter")) return;
  }
  const isArrow = event.key.startsWith("Arrow");
  if (isArrow && event.target.closest(".card, .input, details")) return;
  const key = /^[1-9]$/.test(event.key) ? () => choose(Number(event.key)) : KEYS[event.key];
  if (!key) return;
  keyAt = performance.now();
  event.preventDefault();
  key();
});

$("filter").addEventListener("input", place);
$("keys").addEventListener("click", () => $("keys-dialog").showModal());
$("keys-close").addEventListener("click", () => $("keys-dialog").close());

/* ---- The beginning ---- */

$("code-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setText($("code-error"), "");
  await trade($("code").value).catch((error) => setText($("code-error"), error.message));
});

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("c");
  // Before anything else sees it, the code leaves the address bar.
  history.replaceState(null, "", "/");
  const refused = code ? await trade(code).then(() => "", (error) => error.message) : null;
  if (refused === "") return;
  $("enter").hidden = false;
  setText($("code-error"), refused ?? "");
  $("code").focus();
}
begin();
