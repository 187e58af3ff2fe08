// Keeps the live view up to date. Each "view" event contains all parts of the page as the server renders them; parts that differ from
// the shown ones replace them.
"use strict";

const main = document.querySelector("main[data-events]");
const connection = document.querySelector("[data-connection]");

function state(text, name) {
  if (connection.textContent !== text) {
    connection.textContent = text;
  }
  connection.dataset.connection = name;
}

function show(html) {
  const parts = new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]");
  for (const part of parts) {
    const shown = main.querySelector(`[data-part="${part.dataset.part}"]`);
    // Untouched while nothing changed, so that what a reader has selected stays selected.
    if (shown && shown.innerHTML !== part.innerHTML) {
      shown.replaceWith(document.importNode(part, true));
    }
  }
}

const source = new EventSource(main.dataset.events);
source.addEventListener("open", () => state("Live", "live"));
source.addEventListener("view", (event) => show(event.data));
source.addEventListener("error", () => {
  const over = source.readyState === EventSource.CLOSED;
  state(over ? "This link has expired. Ask for a new one." : "Connection lost; reconnecting.", "lost");
});
