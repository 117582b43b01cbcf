// What the pages do by themselves: stay live, heed keys, open dialogs, copy commands. Without it every link and form works.
"use strict";

const root = document.documentElement;
const body = document.body;
const find = (selector, within = document) => within.querySelector(selector);
const closest = (event, selector) => event.target instanceof Element ? event.target.closest(selector) : null;

// ---- live: the page is asked for again when the database has changed, unless a person is in the middle of something

const live = { on: true, changed: false, asking: false, at: 0, missed: 0, lost: "" };

// What must not move now: a dialog, a field, chosen rows, marked text, a row under the pointer or with the focus.
function isBusy() {
  const held = document.activeElement?.closest("#content [data-row], #content input, #content textarea, #content select");
  const chosen = find("#content input[data-select]:checked");
  return Boolean(find("dialog[open]") || held || chosen || find("#content [data-row]:hover") || String(getSelection()));
}

async function refresh(now = false) {
  const every = Number(body.dataset.refresh) * 1000;
  if (!every || !live.on || !live.changed || live.asking || document.hidden) return;
  if (!now && Date.now() - live.at < every) return;
  if (!now && isBusy()) return sayLive();
  live.asking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "1" } });
    const text = await answer.text();
    if (!live.on || (!now && isBusy())) return; // a dialog was opened while the answer was on its way
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const selector of ["#content", ".nav", "#clock", "#dialogs"]) {
      const fresh = find(selector, page), old = find(selector);
      if (fresh && old) renew(old, fresh);
    }
    live.changed = false;
    live.missed = 0;
    document.dispatchEvent(new CustomEvent("onceward:refreshed"));
  } catch { /* the database or the network is away: the next look tells */ } finally {
    live.asking = false;
    live.at = Date.now();
    sayLive();
  }
}

// Makes the old content like the fresh one, node by node: what a person has unfolded, chosen or scrolled stays as it is.
function renew(old, fresh) {
  const known = new Set([...old.querySelectorAll("[data-row][id]")].map((one) => one.id));
  morph(old, fresh);
  if (known.size) for (const row of old.querySelectorAll("[data-row][id]")) if (!known.has(row.id)) row.classList.add("is-new");
  htmx.process(old);
}

const HELD = { DIALOG: ["open"], DETAILS: ["open"], TR: ["aria-selected"], INPUT: ["value", "checked"] };

function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || (old.id ?? "") !== (fresh.id ?? "")) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.matches("[data-keeps]") || old.isEqualNode(fresh)) return;
  const held = old.type === "hidden" ? [] : HELD[old.nodeName] ?? [];
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !held.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (!held.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const left = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = child.id ? left.get(child.id) : at && !at.id && at.nodeName === child.nodeName ? at : null;
    if (!same) { old.insertBefore(child, at); continue; }
    if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
    morph(same, child);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

function sayLive() {
  const word = find(".live__word");
  if (!word) return;
  const waits = live.missed ? `, ${live.missed === 1 ? "a change waits" : `${live.missed} changes wait`}` : "";
  find(".live").classList.toggle("live--lost", live.on && Boolean(live.lost));
  if (live.on && live.lost) word.textContent = `No answer since ${live.lost}`;
  else word.textContent = live.on ? `Live${live.changed && isBusy() ? waits : ""}` : `Paused since ${live.since}${waits}`;
}

function listen() {
  if (!body.dataset.live || !Number(body.dataset.refresh)) return;
  connect();
  setInterval(refresh, 1000);
  document.addEventListener("visibilitychange", () => refresh());
}

// A stream that breaks off is opened again, by the browser or, where it was refused, from here. Until then the page says so.
function connect() {
  const stream = new EventSource(body.dataset.live);
  const leave = () => stream.close();
  stream.addEventListener("changed", () => {
    live.changed = true;
    live.missed += 1;
    if (!live.on) sayLive();
    refresh();
  });
  stream.addEventListener("open", () => {
    if (!live.lost) return;
    live.lost = "";
    live.changed = true;
    sayLive();
    refresh();
  });
  stream.addEventListener("error", () => {
    live.lost ||= new Date().toISOString().slice(11, 19);
    sayLive();
    if (stream.readyState !== EventSource.CLOSED) return;
    removeEventListener("pagehide", leave);
    setTimeout(connect, 5000);
  });
  addEventListener("pagehide", leave);
}

function switchLive() {
  const button = find(".live");
  if (!button) return;
  live.on = !live.on;
  live.since = new Date().toISOString().slice(11, 19);
  button.setAttribute("aria-checked", String(live.on));
  if (live.on) refresh(true);
  sayLive();
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

// ---- dialogs: of this page, or loaded from the page that a link leads to

function openDialog(id) {
  const dialog = document.getElementById(id);
  dialog?.showModal();
  find("[autofocus], .dialog__foot .btn[type=submit]", dialog ?? body)?.focus();
}

async function loadDialog(address) {
  let text;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    text = await answer.text();
  } catch {
    location.assign(address);
    return;
  }
  const form = find("#act", new DOMParser().parseFromString(text, "text/html"));
  if (!form) { location.assign(address); return; }
  find("#loaded")?.remove();
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  dialog.id = "loaded";
  dialog.setAttribute("aria-labelledby", "act-title");
  dialog.append(form);
  body.append(dialog);
  openDialog("loaded");
}

// ---- clicks

function copied(button, text) {
  copy(text).then(() => {
    button.dataset.copied = "";
    setTimeout(() => delete button.dataset.copied, 1200);
  });
}

document.addEventListener("click", (event) => {
  if (closest(event, "[data-theme-switch]")) {
    const theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    try { localStorage.setItem("onceward-theme", theme); } catch { /* this page alone, then */ }
    document.dispatchEvent(new CustomEvent("onceward:theme"));
  }
  if (closest(event, ".live")) switchLive();
  const command = closest(event, ".command .copy");
  if (command) copied(command, find("code", command.parentElement).textContent);
  const place = closest(event, "[data-copies]");
  if (place) copied(place, place.dataset.copies);
  if (closest(event, "[data-close]")) closest(event, ".toast")?.remove();
  const opener = closest(event, "[data-opens]");
  if (opener) openDialog(opener.dataset.opens);
  const asks = closest(event, "a[data-asks]");
  if (asks && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); loadDialog(asks.href); }
  if (closest(event, "dialog [data-back]")) { event.preventDefault(); closest(event, "dialog").close(); }
  if (event.target instanceof HTMLDialogElement) event.target.close();
});

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
  addEventListener("pageshow", () => delete event.target.dataset.sent, { once: true });
});

// ---- keys; they rest while a field has the focus

const rows = () => [...document.querySelectorAll("#content [data-row]")].filter((one) => one.getClientRects().length);
const rowHere = () => document.activeElement?.closest("[data-row]");
const opener = (id, fallback) => find(`[data-opens="${id}"]:not(:disabled)`) ?? find(fallback);
const followed = { g: 0, "*": 0 };

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(rowHere());
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  (next.matches("a, button, input") ? next : find("a[href], button, input", next))?.focus();
  next.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => find("[data-filter]")?.focus(),
  "?": () => openDialog("keys"),
  ".": switchLive,
  j: () => step(1),
  k: () => step(-1),
  x: () => find("input[data-select]", rowHere() ?? body)?.click(),
  X: () => { const box = find("input[data-select]", rowHere() ?? body); if (box) document.dispatchEvent(new CustomEvent("onceward:range", { detail: box })); },
  o: () => { const link = find("a[href]", rowHere() ?? document.createElement("p")); if (link) open(link.href, "_blank", "noopener"); },
  w: () => { const why = find(".why"); why?.setAttribute("tabindex", "-1"); why?.focus(); why?.scrollIntoView({ block: "center" }); },
  r: () => opener("retry", "[data-act=retry]")?.click(),
  a: () => opener("approve", "[data-act=approve]")?.click(),
  p: () => opener("pause", "[data-act=pause]")?.click(),
  c: () => find(".command .copy", rowHere() ?? document.activeElement?.closest("section, li") ?? body)?.click(),
  "[": () => find("a[rel=next]")?.click(),
  "]": () => find("a[rel=prev]")?.click(),
};

function singleKeysWork() {
  try { return localStorage.getItem("onceward-keys") !== "off"; } catch { return true; }
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select") || find("dialog[open]")) return;
  if (!singleKeysWork()) return;
  if (followed.g > Date.now() - 1500) {
    followed.g = 0;
    const link = find(`.nav [data-go="${CSS.escape(event.key)}"]`);
    if (link) { link.click(); event.preventDefault(); }
    return;
  }
  if (followed["*"] > Date.now() - 1500) {
    followed["*"] = 0;
    if (event.key === "a") { event.preventDefault(); document.dispatchEvent(new CustomEvent("onceward:all")); }
    return;
  }
  if (event.key in followed) { followed[event.key] = Date.now(); return; }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

const keysSwitch = find("[data-keys-switch]");
if (keysSwitch) {
  keysSwitch.checked = singleKeysWork();
  keysSwitch.addEventListener("change", () => {
    try { localStorage.setItem("onceward-keys", keysSwitch.checked ? "on" : "off"); } catch { /* this page alone, then */ }
  });
}

for (const toast of document.querySelectorAll(".toast[data-goes]")) {
  let left = 8000;
  const tick = setInterval(() => {
    if (!toast.matches(":hover, :focus-within")) left -= 500;
    if (left <= 0) { clearInterval(tick); toast.remove(); }
  }, 500);
}
const here = find(".nav [aria-current]"); // where there is little room it may lie out of sight
if (here) here.parentElement.scrollLeft = here.offsetLeft - (here.parentElement.clientWidth - here.offsetWidth) / 2;
listen();
