// `node case.js CASE BROWSER URL`: one case in one browser. It ends with 0 if all of it holds.

import { assert, equal, findings, launch, open, step, tab, text, until } from "./browser.js";

const PHONE = { width: 390, height: 844 };
const DESK = { width: 1280, height: 800 };
const PASSPHRASE = "violet-anchor-1";

const focused = (page) => page.evaluate(() => document.activeElement.textContent.trim());
const keys = async (page, ...all) => { for (const key of all) await page.keyboard.press(key); };

/** On a phone and on a desk, light and dark: nothing serious is wrong, and nothing is wider than the screen. */
async function isAccessible(page, what) {
  for (const size of [DESK, PHONE]) {
    await page.setViewport(size);
    for (const scheme of which === "chromium" ? ["light", "dark"] : [which === "firefox-dark" ? "dark" : "light"]) {
      if (which === "chromium") await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      assert(await page.evaluate((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, scheme), `not ${scheme}`);
      equal(await findings(page), [], `${what}, ${size.width}, ${scheme}`);
    }
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert(width <= size.width, `${what}: ${width} pixels on a screen of ${size.width}`);
    const small = await page.evaluate(() => [...document.querySelectorAll("button, summary, .option, input[type=search]")]
      .filter((one) => one.checkVisibility() && !one.classList.contains("open"))
      .filter((one) => one.getBoundingClientRect().height < 43.5).map((one) => one.outerHTML));
    equal(small, [], `${what}: less than 44 pixels`);
  }
  await page.setViewport(DESK);
}

/** Pictures of what is shown, in the directory that COORD_TEST_PICTURES names. */
async function pictures(page, what, sizes = [DESK, PHONE]) {
  const into = process.env.COORD_TEST_PICTURES;
  if (!into) return;
  for (const size of sizes) {
    await page.setViewport(size);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.screenshot({ path: `${into}/${what}-${size.width}-${scheme}.png` });
    }
  }
  await page.setViewport(DESK);
}

/** The list, a session and its request are there; what is hostile is text. */
async function shows(page, url) {
  await page.setViewport(DESK);
  await open(page, url);
  equal(new URL(page.url()).hash, "", "the code has left the address");
  const heads = await page.$$eval(".group h2", (all) => all.map((one) => one.textContent.replace(/[0-9▸]/g, "")));
  equal(heads, ["NEEDS YOU", "WORKING"], "the groups");
  await text(page, ".row .state", "awaiting_permission");
  await text(page, "#session-name", "harness-");
  await text(page, "#why", "asks to run Bash");
  await text(page, "#facts", "interactive");
  await text(page, "#all-requests .card h3", "asks to run Bash");
  const input = await text(page, "#all-requests .input", "<script>alert(1)</script>");
  assert(input.includes("⟨U+202E⟩") && input.includes("⟨U+001B⟩"), input);
  equal(await page.$$eval("#app img, #app script, #app iframe", (all) => all.length), 0, "elements made of text");
  const hostile = await page.$$(".row .open");
  await hostile.at(-1).click();
  await text(page, "#facts", "/srv/<img src=x onerror=alert(1)>");
  await hostile[0].click();
  await text(page, "#session-name", "harness-");
  await page.$eval("#explain summary", (one) => one.click());
  await text(page, "#explain", "because");
  await page.$eval("#history summary", (one) => one.click());
  await text(page, "#history", "prompt");
  await isAccessible(page, "a session");
  await pictures(page, "session");
  await page.evaluate(() => document.body.classList.remove("is-open"));
  await pictures(page, "list");
  await isAccessible(page, "the list");
  await page.click("#keys");
  await isAccessible(page, "the keys");
  await page.click("#keys-close");
  // Twice as large, all of it is still there.
  await page.setViewport({ width: 640, height: 400, deviceScaleFactor: 2 });
  assert(await page.evaluate(() => document.documentElement.scrollWidth <= 640), "200 % zoom");
}

/** Pictures of all sessions, and on a phone those of the session that asks, which takes the place of the list there. */
async function picturesWithRequest(page, what) {
  await text(page, "#all-requests .card button", "Allow once");
  await page.evaluate(() => [...document.querySelectorAll(".row .open")].find((one) => one.textContent.includes("parser")).click());
  await text(page, "#session-name", "parser");
  await text(page, "#facts th", "id");
  await pictures(page, what, [DESK]);
  await pictures(page, `${what}-request`, [PHONE]);
  await page.evaluate(() => { document.body.classList.remove("is-open"); document.activeElement.blur(); });
  await pictures(page, what, [PHONE]);
}

/** Sessions in every group, two of which ask. */
async function groups(page, url) {
  await page.setViewport(DESK);
  await open(page, url);
  await until(page, () => document.querySelectorAll("#groups .row").length === 8);
  const heads = () => page.$$eval(".group h2", (all) => all.map((one) => one.textContent.replace(/[0-9▸]/g, "")));
  equal(await heads(), ["NEEDS YOU", "WORKING", "WAITING", "IDLE", "ENDED"], "the groups");
  await text(page, "#all-requests legend", "Which example comes first?");
  await picturesWithRequest(page, "8");
  await isAccessible(page, "every group");
  // On a phone what needs nobody soon is folded.
  const folded = () => page.$$eval(".group h2 button[aria-expanded=false]", (all) => all.map((one) => one.firstChild.textContent));
  await page.setViewport(PHONE);
  await until(page, () => document.querySelector(".group h2 button[aria-expanded=false]") !== null);
  equal(await folded(), ["IDLE", "ENDED"], "what is folded");
  await page.setViewport(DESK);
  await until(page, () => document.querySelector(".group h2 button[aria-expanded=false]") === null);
  await keys(page, "s");
  const directories = await heads();
  assert(directories.includes("/home/dev/parser") && directories.length === 8, directories.join(" "));
  await isAccessible(page, "directories");
  await keys(page, "s");
  equal((await heads()).length, 5, "the groups again");
  await page.$$eval(".row .open", (all) => all.find((one) => one.textContent.includes("tests")).click());
  await text(page, "#session-name", "tests");
  await keys(page, "b");
  await text(page, "#session-name", "parser");
}

/** A call is allowed, and a question answered, by keyboard alone. */
async function answers(page, url) {
  await page.setViewport(DESK);
  await open(page, url);
  await text(page, "#all-requests .card button", "Allow once");
  await text(page, "#all-requests .card .place", " · main agent");
  const before = await page.evaluate(() => document.activeElement === document.body);
  assert(before, "the focus does not move by itself");
  await keys(page, "n");
  const first = await text(page, "#session-name", "harness-");
  await keys(page, "a");
  await text(page, "#dialog-title", "Allow this one call?");
  await text(page, "#dialog .input", "touch made");
  equal(await focused(page), "Cancel", "the focus");
  equal(await findings(page), [], "the dialog");
  await pictures(page, "dialog");
  await keys(page, "Escape");
  assert(!(await page.$("dialog[open]")), "Escape cancels");
  await keys(page, "a", "Tab", "Enter");
  await text(page, "#dialog-title", "Passphrase (once per 8 h)");
  await page.keyboard.type("a wrong one");
  await keys(page, "Enter");
  await text(page, "#dialog-error", "Wrong passphrase; nothing was sent.");
  await step("wrong");
  for (;;) {
    // A wrong try delays the next one.
    await page.$eval("#dialog-body input", (field) => { field.value = ""; });
    await page.focus("#dialog-body input");
    await page.keyboard.type(PASSPHRASE);
    await keys(page, "Enter");
    await until(page, () => document.getElementById("dialog-title").textContent !== "Passphrase (once per 8 h)"
      || document.getElementById("dialog-error").textContent.includes("again in"));
    if (await page.$eval("#dialog-title", (title) => !title.textContent.startsWith("Passphrase"))) break;
  }
  await step("allowed");
  await text(page, ".card .outcome", "Sent; the dialog closed. Proof follows when Bash ends.");
  // The other session asks two questions.
  await step("ask");
  await text(page, "#all-requests legend", "Which region?");
  await keys(page, "n");
  await until(page, (first) => document.getElementById("session-name").textContent !== first, first);
  await text(page, "#all-requests .card .buttons", "Answer…");
  await keys(page, "2", "a");
  await text(page, ".card .error", "has no answer");
  // What was chosen stays when the request is shown anew.
  await step("chosen");
  await text(page, "#all-requests .card h3", "builder asks a question");
  equal(await page.$$eval("#all-requests fieldset input:checked", (all) => all.map((one) => one.value)), ["2"], "what was chosen");
  await text(page, ".card .error", "has no answer");
  await keys(page, "4", "5", "a");
  await text(page, "#dialog-title", 'Answer "Which region?" with "us-east" and "Which tests?" with "unit, whole"?');
  await keys(page, "Tab", "Enter");
  await step("answered");
  await text(page, ".card .outcome", "Sent; the dialog closed. Proof follows.");
}

/** A real client's call is allowed, and proved. */
async function approves(page, url) {
  await page.setViewport(PHONE);
  await open(page, url);
  await page.click(".row .open");
  await text(page, "#own-requests .input", "touch made-on-the-page");
  await page.click("#own-requests .main");
  await text(page, "#dialog-title", "Allow this one call?");
  await page.click("#confirm");
  await text(page, "#dialog-title", "Passphrase (once per 8 h)");
  await page.keyboard.type("correct horse battery");
  await page.keyboard.press("Enter");
  await text(page, ".card .outcome", "Taken: the client allowed Bash.");
}

/** The coordinator ends and comes back, and the page's own process stands still for a while, as on a laptop that sleeps: the
 *  page says so, its buttons are off, and nothing is missed. */
async function restarts(page, url) {
  await open(page, url);
  await until(page, () => document.querySelector("#session-acts button:not([disabled])") !== null);
  await step("kill");
  const words = await text(page, "#lost", "Connection lost at ");
  assert(words.endsWith(". Shown is what was known then. Retrying."), words);
  await until(page, () => document.querySelector("#session-acts button[disabled]") !== null);
  await text(page, ".row .name", "project");
  await isAccessible(page, "a lost connection");
  await step("start");
  await until(page, () => document.getElementById("lost").hidden);
  await text(page, ".row .state", "idle");
  await until(page, () => document.querySelector("#session-acts button:not([disabled])") !== null);
  await step("stop");
  await text(page, "#lost", "Connection lost at ");
  await until(page, () => document.querySelector("#session-acts button[disabled]") !== null);
  await step("continue");
  await until(page, () => document.getElementById("lost").hidden);
  await text(page, ".row .state", "running");
  await step("end");
  await text(page, "#ended", "coord dashboard has ended. Start it again for a new code.");
}

/** 500 sessions are listed, found and walked through; the page costs nothing while it is hidden. */
async function many(page, url) {
  await page.setViewport(DESK);
  await page.evaluateOnNewDocument(() => {
    const { fetch } = window;
    window.streams = [];
    window.fetch = (address, options) => {
      if (String(address).startsWith("/api/stream")) window.streams.push(options.signal);
      return fetch(address, options);
    };
  });
  await open(page, url);
  await until(page, () => document.querySelectorAll("#groups .row").length === 500);
  await picturesWithRequest(page, "500");
  await page.keyboard.press("G");
  const last = await page.evaluate(() => document.activeElement.closest(".row") === [...document.querySelectorAll("#groups .row")].at(-1));
  assert(last, "G goes to the last one");
  await page.keyboard.press("/");
  await page.keyboard.type("project-7");
  await until(page, () => document.querySelectorAll("#groups .row").length < 500);
  const names = await page.$$eval("#groups .row .name", (all) => all.map((one) => one.textContent));
  assert(names.length && names.every((name) => name.includes("project-7")), names.join(" "));
  equal(await findings(page), [], "many");
  await page.$eval("#filter", (filter) => { filter.value = ""; });
  await page.setViewport(PHONE);
  assert(await page.evaluate(() => document.documentElement.scrollWidth <= 390), "a phone");
  await page.setViewport(DESK);
  // What changes is shown where it is, and the focus stays.
  await page.focus("#filter");
  // While another tab is in front, nothing is asked for; then all that happened is shown.
  const streams = () => page.evaluate(() => window.streams.map((signal) => signal.aborted));
  const other = await page.browser().newPage();
  await other.bringToFront();
  await until(page, () => document.hidden);
  await until(page, () => window.streams.every((signal) => signal.aborted));
  const before = await streams();
  await step("change");
  equal(await streams(), before, "what a hidden page asks for");
  await other.close();
  await page.bringToFront();
  await text(page, ".row .state", "idle");
  equal(await page.evaluate(() => document.activeElement.id), "filter", "the focus");
}

/** A wrong code, and one that was used, say so; the form takes the right one. */
async function enters(page, url) {
  const plain = url.split("#")[0];
  await page.goto(`${plain}#c=AAAA-AAA2`);
  await text(page, "#code-error", "That is not the code.");
  equal(await findings(page), [], "the form");
  await page.type("#code", new URL(url).hash.slice(3).toLowerCase());
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#app:not([hidden])") !== null);
  await text(page, "#nothing", "No sessions yet.");
  await pictures(page, "0");
  await page.goto("about:blank");
  await page.goto(url);
  await text(page, "#code-error", "This code was used. Restart coord dashboard.");
  equal(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, ""], "what is kept");
}

const CASES = { answers, approves, enters, groups, many, restarts, shows };

const [name, which, url] = process.argv.slice(2);
const browser = await launch(which);
try {
  const { page, wrong } = await tab(browser);
  await CASES[name](page, url);
  equal(wrong, [], "what went wrong");
} finally {
  await browser.close();
}
process.exit(0);
