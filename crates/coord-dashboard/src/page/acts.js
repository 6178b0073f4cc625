// The second half of the page's one script: requests, what a person does, and the keys.

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
  const { age, left, ...fixed } = one;
  const key = JSON.stringify(fixed);
  const old = cards.get(one.need);
  if (old?.key === key) {
    setText(old.querySelector(".left"), left);
    return setText(old.querySelector(".age"), age);
  }
  if (old && outcomes.has(one.need)) return;
  const card = old ?? make("article", "card");
  const entered = enteredIn(card);
  [card.key, card.request] = [key, one];
  card.classList.remove("is-over");
  card.replaceChildren();
  card.append(make("h3", "", make("span", "", `${one.name} ${one.title}`), make("span", "age", age)));
  card.append(make("p", "place", one.place));
  card.append(make("p", "left", left));
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
  enterAgain(card, entered);
  cards.set(one.need, card);
}

const fieldsOf = (card) => [...card.querySelectorAll("fieldset input")];

/** What a person has entered into a card, and where the focus is. */
function enteredIn(card) {
  const fields = fieldsOf(card);
  return {
    questions: JSON.stringify(card.request?.questions),
    values: fields.map(({ checked, value }) => ({ checked, value })),
    focused: fields.indexOf(document.activeElement),
    error: card.querySelector(".error")?.textContent,
  };
}

/** Puts that back into a card that was drawn anew with the same questions. */
function enterAgain(card, { questions, values, focused, error }) {
  if (questions !== JSON.stringify(card.request.questions)) return;
  const fields = fieldsOf(card);
  fields.forEach((field, at) => Object.assign(field, values[at]));
  fields[focused]?.focus({ preventScroll: true });
  if (error) tellBeside(card, error);
}

/** The input. Each of its lines has a mark before it, so that a line that is wrapped does not look like two. */
function linesOf({ input }) {
  return make("pre", "input", ...input.map((text, at) => make("span", "", at + 1 < input.length ? `${text}\n` : text)));
}

function inputOf(one) {
  const input = linesOf(one);
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
  const body = input.length ? [linesOf(card.request)] : [];
  const message = choice.takes_message ? make("textarea") : null;
  if (message) body.push(make("label", "", "What the agent reads (optional)", message));
  const acted = await confirm(title, body, choice.confirm, () => {
    // What is said of the request meanwhile is about this answer.
    outcomes.add(need);
    return act(message?.value ? { ...what, message: message.value } : what, false).catch((error) => {
      outcomes.delete(need);
      throw error;
    });
  });
  if (acted) tell(card, acted.lines.join("\n"));
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
  b: () => rows.has(previous) && open(previous, true), s: groupByDirectory,
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
