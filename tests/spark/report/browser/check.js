// Open pages in Chromium, draw all charts, and print what the browser and axe-core report, one JSON object per page.
// Arguments: the path of Chromium, and a JSON array of {url, width, scheme, media}.
"use strict";
const fs = require("fs");
const puppeteer = require("puppeteer-core");

const [chromium, jobs] = [process.argv[2], JSON.parse(process.argv[3])];
const axe = fs.readFileSync(require.resolve("axe-core"), "utf8");

const look = async (browser, { url, width, scheme, media }) => {
  const page = await browser.newPage();
  const told = [];
  page.on("console", (line) => { if (line.type() !== "log") { told.push(line.text()); } });
  page.on("pageerror", (error) => told.push(error.message));
  page.on("dialog", (dialog) => { told.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => { if (request.url() !== url) { told.push(`request: ${request.url()}`); } });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url);
  await page.evaluate(async () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      figure.scrollIntoView();
      while (!figure.querySelector(".live svg")) { await new Promise((done) => setTimeout(done, 20)); }
    }
  });
  if (media) { await page.emulateMediaType(media); }
  await page.evaluate(axe);
  const result = await page.evaluate(async () => ({
    charts: document.querySelectorAll("figure[data-chart]").length,
    drawn: document.querySelectorAll(".live svg").length,
    shown: [...document.querySelectorAll(".live svg, .still svg")].filter((one) => one.getBoundingClientRect().height > 50).length,
    wider: document.documentElement.scrollWidth - window.innerWidth,
    violations: (await axe.run(document, { resultTypes: ["violations"] })).violations.map((one) => [one.id, one.nodes[0].html]),
  }));
  await page.close();
  return { ...result, told };
};

(async () => {
  const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"] });
  for (const job of jobs) { console.log(JSON.stringify(await look(browser, job))); }
  await browser.close();
})().catch((error) => { console.error(error.message); process.exit(1); });
