// `node picture.js URL SESSION FILE…`: pictures of the page with this session open, each FILE being named
// NAME-WIDTHxHEIGHT-SCHEME.png. Prints the text that the first one shows, so that the caller can look through it.

import { launch, open, tab, text } from "./browser.js";

const [url, session, ...files] = process.argv.slice(2);
const browser = await launch("chromium");
try {
  const { page } = await tab(browser);
  await page.setViewport({ width: 1280, height: 800 });
  await open(page, url);
  if (session) {
    const rows = await page.$$(".row .open");
    for (const row of rows) {
      if ((await row.evaluate((one) => one.querySelector(".name").textContent)) === session) await row.click();
    }
    await text(page, "#session-name", session);
    await text(page, "#facts th", "id");
  }
  for (const file of files) {
    const [, width, height, scheme] = /-(\d+)x(\d+)-(light|dark)\.png$/.exec(file);
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.setViewport({ width: Number(width), height: Number(height) });
    await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
    await page.screenshot({ path: file });
    if (file !== files[0]) continue;
    const seen = await page.evaluate(() => [...document.querySelectorAll("body *")]
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().top < innerHeight)
      .flatMap((one) => [...one.childNodes].filter((part) => part.nodeType === Node.TEXT_NODE).map((part) => part.data.trim()))
      .filter(Boolean).join("\n"));
    process.stdout.write(seen);
  }
} finally {
  await browser.close();
}
process.exit(0);
