// Keeps the live view up to date. Each event is a whole snapshot; the server wrote the first one into the page.
"use strict";

const SPEAK_EVERY_MS = 10000;
const main = document.querySelector("main[data-events]");
const connection = document.querySelector("[data-connection]");
const summary = document.querySelector("[data-summary]");
let spokenAt = 0;

function write(element, text) {
  if (element.textContent === text) {
    return;
  }
  element.textContent = text;
  element.classList.remove("changed");
  void element.offsetWidth;
  element.classList.add("changed");
}

function ago(ageMs) {
  const seconds = Math.floor(ageMs / 1000);
  if (seconds < 120) {
    return `${seconds} s ago`;
  }
  return seconds < 7200 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3600)} h ago`;
}

function percent(part, whole) {
  return whole > 0 ? Math.floor((100 * part + Math.floor(whole / 2)) / whole) : 0;
}

function filled(bucket) {
  const bar = document.createElement("progress");
  bar.max = Math.max(bucket.target, 1);
  bar.value = Math.min(bucket.filled, bar.max);
  bar.setAttribute("aria-label", `${bucket.name} filled`);
  return [bar, ` ${bucket.filled} of ${bucket.target}`];
}

function rows(name, all) {
  const lines = all.map((cells) => {
    const line = document.createElement("tr");
    cells.forEach((cell, at) => {
      const element = document.createElement(at === 0 ? "th" : "td");
      if (at === 0) {
        element.scope = "row";
      }
      element.append(...[cell].flat().map((part) => (part instanceof Node ? part : String(part))));
      line.append(element);
    });
    return line;
  });
  const body = document.querySelector(`[data-rows="${name}"]`);
  // Untouched while nothing changed, so that what a reader has selected stays selected.
  const next = document.createElement("tbody");
  next.append(...lines);
  if (next.innerHTML !== body.innerHTML) {
    body.replaceChildren(...next.childNodes);
  }
}

function show(live) {
  const { sessions, events } = live;
  const figures = {
    completed: sessions.completed,
    screened_out: sessions.screened_out,
    active: sessions.active,
    started: sessions.started,
    per_second: events.per_second,
    delay: events.delay_ms === null ? "none yet" : `${events.delay_ms} ms`,
    age: events.newest_age_ms === null ? "none yet" : ago(events.newest_age_ms),
  };
  for (const [name, value] of Object.entries(figures)) {
    write(document.querySelector(`[data-figure="${name}"]`), String(value));
  }
  rows("reasons", Object.entries(sessions.terminated).map(([reason, count]) => [reason.replaceAll("_", " "), count]));
  rows("pages", live.pages.map((page) => [
    page.page_id || "before the first page",
    page.reached,
    page.here,
    `${page.dropped} (${percent(page.dropped, page.reached)}%)`,
  ]));
  rows("quotas", live.quotas.map((one) => [one.closed ? `${one.name} (full)` : one.name, filled(one), one.reserved]));
  rows("collectors", live.collectors.map((one) => [one.name || one.collector_id, one.started, one.completed]));
  speak(`${sessions.completed} completes, ${sessions.screened_out} screen-outs, ${sessions.active} sessions under way.`);
}

// Read aloud by screen readers, so not more often than one can listen.
function speak(text) {
  const now = Date.now();
  if (summary.textContent !== text && now - spokenAt >= SPEAK_EVERY_MS) {
    summary.textContent = text;
    spokenAt = now;
  }
}

const source = new EventSource(main.dataset.events);
source.addEventListener("open", () => {
  connection.textContent = "Live";
});
source.addEventListener("live", (event) => show(JSON.parse(event.data)));
source.addEventListener("error", () => {
  const over = source.readyState === EventSource.CLOSED;
  connection.textContent = over ? "This link has expired. Ask for a new one." : "Connection lost; trying again.";
});
