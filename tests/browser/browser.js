// Starts a browser that reaches this machine alone, and what the cases have in common.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const modules = createRequire(`${process.env.COORD_TEST_BROWSER}/package.json`);
const { default: puppeteer } = await import(pathToFileURL(modules.resolve("puppeteer-core")));
const axe = modules.resolve("axe-core/axe.min.js");

/** No test waits longer than this for anything; it only bounds a failure. */
export const PATIENCE_MS = 120_000;

const CHROMIUM = {
  browser: "chrome",
  executablePath: "/usr/bin/chromium",
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  ],
};
const FIREFOX = {
  browser: "firefox",
  executablePath: "/usr/bin/firefox-esr",
  // What is not on this machine goes to a proxy that is not there.
  extraPrefsFirefox: {
    "network.proxy.type": 1, "network.proxy.socks": "127.0.0.1", "network.proxy.socks_port": 9,
    "network.proxy.socks_remote_dns": true, "network.proxy.no_proxies_on": "127.0.0.1",
    "network.proxy.allow_hijacking_localhost": false,
  },
};

/** Firefox cannot be told while it runs to show pages dark, as Chromium can. */
function firefox(isDark) {
  const scheme = { "layout.css.prefers-color-scheme.content-override": isDark ? 0 : 1 };
  return { ...FIREFOX, extraPrefsFirefox: { ...FIREFOX.extraPrefsFirefox, ...scheme } };
}

export async function launch(name) {
  const options = name === "chromium" ? CHROMIUM : firefox(name === "firefox-dark");
  return puppeteer.launch({ ...options, headless: true, protocolTimeout: PATIENCE_MS });
}

/** A tab, and everything in it that went wrong. */
export async function tab(browser) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const wrong = [];
  page.on("dialog", (dialog) => { wrong.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  // A browser asks for an icon by itself, and the page's policy forbids that.
  page.on("pageerror", (error) => error.message.includes("/favicon.ico") || wrong.push(`an error: ${error.message}`));
  page.on("console", (message) => {
    // What a browser says of a connection that ended is expected where a test ends one.
    if (message.type() === "error" && !/ERR_|NetworkError|Failed to load resource|favicon\.ico/.test(message.text())) {
      wrong.push(`on the console: ${message.text()}`);
    }
  });
  page.on("request", (request) => {
    if (!request.url().startsWith("http://127.0.0.1:") && !request.url().startsWith("about:")) {
      wrong.push(`a request elsewhere: ${request.url()}`);
    }
  });
  return { page, wrong };
}

/** Opens the page with its code, and waits for the list. */
export async function open(page, url) {
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await until(page, () => document.getElementById("summary").textContent || !document.getElementById("nothing").hidden);
}

/** Waits until this holds in the page. (What puppeteer has for it, the page's own policy forbids.) */
export async function until(page, holds, ...words) {
  const begun = Date.now();
  while (!(await page.evaluate(holds, ...words))) {
    if (PATIENCE_MS < Date.now() - begun) {
      throw new Error(`in vain: ${holds} ${words}\n${await page.evaluate(() => document.body.innerText)}`);
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Waits until a selector's text has this in it, and returns the text. */
export async function text(page, selector, part) {
  await until(page, (selector, part) =>
    [...document.querySelectorAll(selector)].some((one) => one.checkVisibility() && one.textContent.includes(part)), selector, part);
  return page.$$eval(selector, (all, part) => all.find((one) => one.textContent.includes(part)).textContent, part);
}

/** What axe finds wrong that matters. */
export async function findings(page) {
  await page.evaluate(() => Promise.all(document.getAnimations().map((one) => one.finished)));
  // The page's own policy lets no script in that is not its own.
  const source = modules("fs").readFileSync(axe, "utf8");
  await page.evaluate(source);
  const found = await page.evaluate(async () => (await window.axe.run(document)).violations.map((one) =>
    `${one.impact} ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`));
  return found.filter((one) => /^(serious|critical|moderate)/.test(one));
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Tells the test that this point is reached, and waits until it goes on. */
export async function step(name) {
  process.stdout.write(`${name}\n`);
  const { done } = await lines.next();
  if (done) throw new Error(`the test has ended at ${name}`);
}

export function assert(holds, why) {
  if (!holds) throw new Error(why);
}

export function equal(left, right, why) {
  assert(JSON.stringify(left) === JSON.stringify(right), `${why}: ${JSON.stringify(left)} is not ${JSON.stringify(right)}`);
}
