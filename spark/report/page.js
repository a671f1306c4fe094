"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const tip = document.getElementById("tip");
  const views = [];
  let range = null;
  let passing = 0;

  // Text of the capture is only ever inserted as text, never as HTML.
  const lines = (names, datum) => datum.text !== undefined ? [datum.kind + ", " + place(datum.s), datum.text] :
    [place(datum.s)].concat(names.map((name, at) => {
      const value = datum["v" + at];
      return value === null || value === undefined ? "" : name + ": " + value.toLocaleString("en-US", { maximumSignificantDigits: 5 });
    }).filter(Boolean));
  const clock = Number(root.dataset.start);
  const place = (seconds) => typeof seconds !== "number" ? "" :
    seconds.toLocaleString("en-US", { maximumFractionDigits: 3 }) + " s, " + new Date(clock + seconds * 1000).toISOString().replace("T", " ").replace("Z", " UTC");

  const showTip = (figure, names, timed) => (handler, event, item, value) => {
    if (value === null || value === undefined || value === "" || !item || !item.datum) {
      tip.style.display = "none";
      return;
    }
    const datum = item.datum.datum || item.datum;
    tip.textContent = (timed ? lines(names, datum) : [datum.text]).join("\n");
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > window.innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, window.innerHeight - box.height - 4)) + "px";
  };

  // The signal of a chart also changes when the range is set here: only changes by the reader are passed on.
  const setRange = async (next, from) => {
    range = next;
    if (from || !next) {
      ["from", "to"].forEach((id, at) => {
        document.getElementById(id).value = next ? Math.round(next[at] * 1000) / 1000 : "";
      });
    }
    passing += 1;
    await Promise.all(views.filter((view) => view !== from).map((view) => view.signal("zoom_s", next).runAsync()));
    passing -= 1;
  };

  const draw = async (figure) => {
    const about = JSON.parse(figure.querySelector("script").textContent);
    const chart = figure.querySelector(".chart");
    const live = chart.querySelector(".live");
    chart.classList.add("drawn");
    const { view } = await vegaEmbed(live, about.spec, {
      ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: showTip(figure, about.names, about.timed),
    });
    if (about.timed) {
      views.push(view);
      if (range) { await view.signal("zoom_s", range).runAsync(); }
      view.addSignalListener("zoom_s", (name, value) => { if (!passing) { setRange(value || null, view); } });
    }
  };

  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      seen.unobserve(entry.target);
      draw(entry.target).catch((error) => { entry.target.querySelector(".chart").classList.remove("drawn"); console.error(error); });
    });
  }, { rootMargin: "300px" });
  document.querySelectorAll("figure[data-chart]").forEach((figure) => seen.observe(figure));

  const fromTo = () => {
    const [from, to] = ["from", "to"].map((id) => document.getElementById(id).value);
    const last = Number(root.dataset.seconds);
    const next = [from === "" ? 0 : Number(from), to === "" ? last : Number(to)];
    setRange(from === "" && to === "" || next[0] >= next[1] ? null : next, null);
  };
  document.querySelectorAll("#from, #to").forEach((input) => input.addEventListener("change", fromTo));
  document.querySelectorAll("#reset").forEach((button) => button.addEventListener("click", () => setRange(null, null)));
  document.getElementById("open").addEventListener("click", () => {
    const all = [...document.querySelectorAll("details:not(.data)")];
    const open = !all.every((one) => one.open);
    all.forEach((one) => { one.open = open; });
  });

  document.querySelectorAll("table.sortable").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((cell, at) => {
      if (!cell.textContent) { return; }
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const descending = cell.getAttribute("aria-sort") === "ascending" ||
          (!cell.hasAttribute("aria-sort") && cell.classList.contains("n"));
        [...table.tHead.rows[0].cells].forEach((one) => one.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const value = (row) => row.cells[at].dataset.sort === undefined ? row.cells[at].textContent : Number(row.cells[at].dataset.sort);
        const order = (one, other) => typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
        const rows = [...table.tBodies[0].rows].sort((one, other) => order(value(one), value(other)) * (descending ? -1 : 1));
        table.tBodies[0].append(...rows);
      });
    });
  });

  const status = document.getElementById("matches");
  let waiting = 0;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(event.target.value.trim().toLowerCase()), 150);
  });
  // The text of an element that a reader sees, without the data of charts.
  const texts = new WeakMap();
  const textOf = (one) => {
    if (!texts.has(one)) {
      const parts = one.matches("tr") ? [one] : [...one.querySelectorAll("summary, p, dt, dd, li, h3, table.sortable td")];
      texts.set(one, parts.map((part) => part.textContent).join(" ").toLowerCase());
    }
    return texts.get(one);
  };
  const search = (words) => {
    let count = 0;
    document.querySelectorAll(".group, .part, table.sortable tbody tr").forEach((one) => {
      const match = !words || textOf(one).includes(words);
      one.hidden = !match;
      count += match && !one.querySelector(".group, .part, tr") ? 1 : 0;
    });
    status.textContent = words ? count.toLocaleString("en-US") + " matches" : "";
  };

  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement) {
      if (one.tagName === "DETAILS") { one.open = true; }
    }
    if (target) { target.scrollIntoView(); }
  };
  // A page of a server shows a later run as soon as there is one, unless something on the page is in use.
  const news = document.getElementById("news");
  const check = async () => {
    const answer = await fetch("/run");
    const { run } = await answer.json();
    if (run === Number(root.dataset.run)) { return; }
    const used = document.querySelector("main details[open]") || document.getElementById("search").value || range;
    if (!used) { location.reload(); }
    news.textContent = "Run " + run + " has finished: reload the page to show it.";
  };
  if (news) { setInterval(() => { check().catch(() => { news.textContent = "The server does not respond."; }); }, 5000); }

  window.addEventListener("hashchange", openTarget);
  openTarget();
})();
