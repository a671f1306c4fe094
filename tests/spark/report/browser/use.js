// Use a page as a reader does, and print what it shows after each step, as one JSON object.
// Arguments: the path of Chromium, and the URL of the page.
"use strict";
const puppeteer = require("puppeteer-core");

const settle = (page) => page.evaluate(() => new Promise((done) => setTimeout(done, 600)));
const view = (page, anchor) => page.evaluate((id) => document.getElementById(id).scrollIntoView(), anchor);

// The labels of the time axes of the charts that are drawn, in seconds, from left to right.
const axes = (page) => page.evaluate(() => [...document.querySelectorAll("#incidents .live, #traffic .live")].map((one) =>
  [...one.querySelectorAll(".role-axis-label tspan")].filter((label) => label.textContent.endsWith(" s"))
    .map((label) => [label.getBoundingClientRect().left, parseFloat(label.textContent)])
    .sort((label, other) => label[0] - other[0]).map((label) => label[1])));

(async () => {
  const browser = await puppeteer.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-gpu"] });
  const page = await browser.newPage();
  await page.setViewport({ width: 1400, height: 900 });
  await page.goto(process.argv[3]);
  const shown = {};
  await view(page, "incidents");
  await settle(page);
  await view(page, "traffic");
  await settle(page);
  shown.whole = await axes(page);
  await page.type("#from", "10");
  await page.type("#to", "15");
  await page.keyboard.press("Tab");
  await settle(page);
  shown.part = await axes(page);
  await page.click("#reset");
  await settle(page);
  shown.reset = await axes(page);

  await view(page, "traffic");
  const box = await page.evaluate(() => {
    const { left, top, width, height } = document.querySelector("#traffic .live svg").getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  });
  await page.mouse.move(box[0], box[1]);
  await page.mouse.move(box[0] + 4, box[1]);
  await settle(page);
  shown.tip = await page.evaluate(() => document.getElementById("tip").textContent.split("\n"));
  const place = await page.evaluate(() => window.scrollY);
  await page.keyboard.down("Control");
  await page.mouse.wheel({ deltaY: -600 });
  await page.keyboard.up("Control");
  await settle(page);
  shown.zoomed = await axes(page);
  shown.scrolled = await page.evaluate(() => window.scrollY) - place;

  await page.type("#search", process.argv[4]);
  await settle(page);
  shown.found = await page.evaluate(() => [...document.querySelectorAll("#incidents .group")].filter((one) => one.offsetHeight).length);
  await page.evaluate(() => {
    const search = document.getElementById("search");
    search.value = "";
    search.dispatchEvent(new Event("input"));
  });
  await settle(page);
  shown.groups = await page.evaluate(() => [...document.querySelectorAll("#incidents > .group")].filter((one) => one.offsetHeight).length);
  shown.sorted = await page.evaluate(() => [0, 1].map(() => {
    const table = document.querySelector("#consumers table");
    const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "msg_out_counter");
    table.tHead.rows[0].cells[at].querySelector("button").click();
    return [...table.tBodies[0].rows].map((row) => Number(row.cells[at].dataset.sort));
  }));
  await page.evaluate(() => document.querySelector("#consumers a").click());
  await settle(page);
  shown.open = await page.evaluate(() => document.querySelector(location.hash).open);
  console.log(JSON.stringify(shown));
  await browser.close();
})().catch((error) => { console.error(error.message); process.exit(1); });
