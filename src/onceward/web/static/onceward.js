// What the pages do by themselves: stay live, heed keys, open dialogs, copy commands. Without it every link and form works.
"use strict";

const root = document.documentElement;
const body = document.body;
const find = (selector, within = document) => within.querySelector(selector);
const closest = (event, selector) => event.target instanceof Element ? event.target.closest(selector) : null;

// ---- live: the page is asked for again when the database has changed, unless a person is in the middle of something

const live = { on: true, changed: false, asking: false, at: 0 };

function isBusy() {
  const open = find("dialog[open]");
  const field = document.activeElement?.matches("input, textarea, select");
  const chosen = find("#content input[type=checkbox][data-row]:checked");
  return Boolean(open || field || chosen || find("#content tr:hover") || String(getSelection()));
}

async function refresh() {
  const every = Number(body.dataset.refresh) * 1000;
  if (!every || !live.on || !live.changed || live.asking || document.hidden) return;
  if (Date.now() - live.at < every || isBusy()) return;
  live.asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "1" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const selector of ["#content", ".nav", "#clock"]) {
      const fresh = find(selector, page), old = find(selector);
      if (fresh && old) renew(old, fresh);
    }
    document.dispatchEvent(new CustomEvent("onceward:refreshed"));
    live.changed = false;
  } catch { /* the database or the network is away: the next look tells */ } finally {
    live.asking = false;
    live.at = Date.now();
  }
}

// Puts fresh content in place of the old, and keeps what a person has unfolded.
function renew(old, fresh) {
  const open = new Set([...old.querySelectorAll("details[open][id]")].map((one) => one.id));
  for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
  const at = find("[data-scrolls]", old);
  const left = at?.scrollLeft, top = at?.scrollTop;
  old.replaceWith(fresh);
  htmx.process(fresh);
  const now = find("[data-scrolls]", fresh);
  if (now && at) { now.scrollLeft = left; now.scrollTop = top; }
}

function listen() {
  if (!body.dataset.live) return;
  const stream = new EventSource(body.dataset.live);
  stream.addEventListener("changed", () => { live.changed = true; refresh(); });
  setInterval(refresh, 1000);
  addEventListener("pagehide", () => stream.close());
}

function switchLive() {
  const button = find(".live");
  if (!button) return;
  live.on = !live.on;
  button.setAttribute("aria-checked", String(live.on));
  const now = new Date().toISOString().slice(11, 19);
  find(".live__word", button).textContent = live.on ? "Live" : `Paused since ${now}`;
  if (live.on) refresh();
}

// ---- copying: on plain HTTP too, where browsers offer no clipboard

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "sr";
    body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

// ---- clicks

document.addEventListener("click", (event) => {
  if (closest(event, "[data-theme-switch]")) {
    const theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    try { localStorage.setItem("onceward-theme", theme); } catch { /* this page alone, then */ }
    document.dispatchEvent(new CustomEvent("onceward:theme"));
  }
  if (closest(event, ".live")) switchLive();
  const copied = closest(event, ".command .copy");
  if (copied) copy(find("code", copied.parentElement).textContent).then(() => {
    copied.dataset.copied = "";
    setTimeout(() => delete copied.dataset.copied, 1200);
  });
  if (closest(event, "[data-close]")) closest(event, ".toast")?.remove();
  const opener = closest(event, "[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens)?.showModal();
  if (closest(event, "[data-back]")) closest(event, "dialog")?.close();
  if (event.target instanceof HTMLDialogElement) event.target.close();
});

// ---- keys; they rest while a field has the focus

const rows = () => [...document.querySelectorAll("#content [data-row]")];
let goes = 0;

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(document.activeElement?.closest("[data-row]"));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  (next.matches("a, button, input") ? next : find("a, button, input", next))?.focus();
}

const KEYS = {
  "/": () => find("[data-filter]")?.focus(),
  "?": () => document.getElementById("keys")?.showModal(),
  ".": switchLive,
  j: () => step(1),
  k: () => step(-1),
  x: () => find("input[type=checkbox]", document.activeElement?.closest("[data-row]") ?? body)?.click(),
  c: () => find(".command .copy", document.activeElement?.closest("[data-row], section") ?? body)?.click(),
  "[": () => find("a[rel=next]")?.click(),
  "]": () => find("a[rel=prev]")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, textarea, select")) return;
  if (find("dialog[open]")) return;
  if (goes > Date.now() - 1500) {
    const link = find(`.nav [data-go="${CSS.escape(event.key)}"]`);
    goes = 0;
    if (link) { link.click(); event.preventDefault(); }
    return;
  }
  if (event.key === "g") { goes = Date.now(); return; }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

for (const toast of document.querySelectorAll(".toast[data-goes]")) setTimeout(() => toast.remove(), 8000);
listen();
