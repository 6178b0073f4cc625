// `node cost.js BROWSER URL SESSIONS`: shows the page and hides it again, step by step, while the caller measures what the
// browser takes. The first line names the browser's process.

import { assert, launch, open, step, tab, until } from "./browser.js";

const [which, url, sessions] = process.argv.slice(2);
const browser = await launch(which);
try {
  const { page } = await tab(browser);
  await page.setViewport({ width: 1280, height: 800 });
  await step(`process ${browser.process().pid}`);
  await open(page, url);
  await until(page, (rows) => document.querySelectorAll("#groups .row").length === rows, Number(sessions));
  await step("shown");
  const other = await browser.newPage();
  await other.bringToFront();
  await until(page, () => document.hidden);
  await step("hidden");
  await page.bringToFront();
  await until(page, () => !document.hidden && document.getElementById("lost").hidden);
  const rows = await page.$$eval("#groups .row", (all) => all.length);
  assert(rows === Number(sessions), `${rows} sessions are listed after the page was hidden`);
  await step("shown");
} finally {
  await browser.close();
}
process.exit(0);
