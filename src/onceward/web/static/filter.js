// The list of tasks: the filter line with its completion, filters saved in this browser, and what is selected.
"use strict";

const field = find("[data-filter]");
const mirror = find(".filter__mirror");
const list = document.getElementById("complete");
const SAVED = "onceward-filters";
const found = { all: [], at: -1, asked: 0 };

// ---- words: the mirror behind the field sets them apart

const WORD = /(\s+)|((?:"(?:[^"\\]|\\.)*"?|[^\s"])+)/g;

function reflect() {
  mirror.replaceChildren();
  for (const [, space, word] of field.value.matchAll(WORD)) {
    if (space) { mirror.append(space); continue; }
    const head = word.match(/^-?[\w.\-]+(<=|>=|[:~<>])/);
    const chip = document.createElement("span");
    if (head) {
      chip.className = "filter__word";
      const name = document.createElement("i");
      name.textContent = head[0];
      chip.append(name, word.slice(head[0].length));
    } else chip.append(word);
    mirror.append(chip);
  }
  mirror.scrollLeft = field.scrollLeft;
}

// ---- completion: what may stand where the caret is

async function complete() {
  const number = ++found.asked, chosen = found.all[found.at]?.text;
  const question = new URLSearchParams({ text: field.value, position: String(field.selectionStart ?? field.value.length) });
  try {
    const answer = await fetch(`${field.dataset.completes}?${question}`);
    if (!answer.ok || number !== found.asked) return;
    found.all = await answer.json();
    found.text = question.get("text");
  } catch { return; }
  found.at = chosen ? found.all.findIndex((one) => one.text === chosen) : -1;
  offer();
}

function offer() {
  list.replaceChildren(...found.all.map((one, place) => {
    const item = document.createElement("li");
    item.id = `complete-${place}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(place === found.at));
    const text = document.createElement("code"), about = document.createElement("span");
    text.textContent = one.text;
    about.textContent = one.about;
    item.append(text, about);
    return item;
  }));
  const shows = Boolean(found.all.length) && document.activeElement === field;
  list.hidden = !shows;
  field.setAttribute("aria-expanded", String(shows));
  if (found.at >= 0 && shows) field.setAttribute("aria-activedescendant", `complete-${found.at}`);
  else field.removeAttribute("aria-activedescendant");
  list.children[found.at]?.scrollIntoView({ block: "nearest" });
}

function take(place) {
  const one = found.all[place];
  if (!one) return;
  if (found.text !== field.value) { // it was offered for an earlier text: the answer for this one decides
    complete().then(() => {
      const again = found.all.findIndex((other) => other.text === one.text);
      if (again >= 0 && found.text === field.value) take(again);
    });
    return;
  }
  const after = field.value.slice(one.end), ends = /[:~<>=.]$/.test(one.text);
  field.value = field.value.slice(0, one.start) + one.text + (ends || after.startsWith(" ") ? "" : " ") + after;
  found.at = -1;
  const caret = one.start + one.text.length + (ends ? 0 : 1);
  field.setSelectionRange(caret, caret);
  reflect();
  complete();
}

if (field) {
  let typing;
  reflectUnlessWrong();
  field.addEventListener("input", () => {
    field.removeAttribute("aria-invalid");
    reflect();
    clearTimeout(typing);
    typing = setTimeout(complete, 90);
  });
  field.addEventListener("scroll", () => { mirror.scrollLeft = field.scrollLeft; });
  field.addEventListener("focus", complete);
  field.addEventListener("blur", () => setTimeout(() => { list.hidden = true; field.setAttribute("aria-expanded", "false"); }, 150));
  field.addEventListener("keydown", (event) => {
    const shows = !list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!shows) return;
      event.preventDefault();
      const count = found.all.length, by = event.key === "ArrowDown" ? 1 : -1;
      found.at = (found.at + by + count + (found.at < 0 && by < 0 ? 1 : 0)) % count;
      offer();
    } else if (event.key === "Tab" && shows && found.at >= 0) {
      event.preventDefault();
      take(found.at);
    } else if (event.key === "Enter" && shows && found.at >= 0) {
      event.preventDefault();
      take(found.at);
    } else if (event.key === "Escape") {
      if (shows) { found.all = []; offer(); } else field.blur();
      event.preventDefault();
    }
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault();
    const item = closest(event, "li");
    if (item) take([...list.children].indexOf(item));
  });
}

function reflectUnlessWrong() {
  if (field.getAttribute("aria-invalid") !== "true") reflect();
}

// ---- filters that are saved in this browser

function saved() {
  try {
    const all = JSON.parse(localStorage.getItem(SAVED) ?? "[]");
    return Array.isArray(all) ? all.filter((one) => typeof one?.name === "string" && typeof one?.filter === "string") : [];
  } catch { return []; }
}

function keep(all) {
  try { localStorage.setItem(SAVED, JSON.stringify(all.slice(-30))); } catch { /* a browser that keeps nothing */ }
  showSaved();
}

function showSaved() {
  const nav = document.getElementById("saved");
  if (!nav) return;
  for (const old of nav.querySelectorAll("[data-own]")) old.remove();
  for (const one of saved()) {
    const link = document.createElement("a"), drop = document.createElement("button");
    const place = document.createElement("span");
    place.dataset.own = "";
    place.className = "saved__own";
    link.href = `${location.pathname}?${new URLSearchParams({ filter: one.filter })}`;
    link.textContent = one.name;
    link.title = one.filter;
    if (one.filter === new URLSearchParams(location.search).get("filter")) link.setAttribute("aria-current", "true");
    drop.type = "button";
    drop.className = "copy";
    drop.textContent = "×";
    drop.setAttribute("aria-label", `Forget the filter ${one.name}`);
    drop.addEventListener("click", () => keep(saved().filter((other) => other.name !== one.name)));
    place.append(link, drop);
    nav.append(place);
  }
}

const saves = find("[data-saves]");
if (saves) {
  saves.hidden = false;
  saves.addEventListener("click", () => {
    const filter = field.value.trim();
    const name = filter && prompt("Save this filter as", filter.slice(0, 40));
    if (name) keep([...saved().filter((one) => one.name !== name), { name, filter }]);
  });
  showSaved();
}

// ---- selection: some on this page, or all that match

const chosen = { all: false, last: null };
const boxes = () => [...document.querySelectorAll("#content input[data-select]")];

function choose() {
  const bar = document.getElementById("bulk");
  if (!bar) return;
  const every = boxes(), some = every.filter((box) => box.checked);
  if (some.length < every.length) chosen.all = false;
  for (const box of every) box.closest("tr").setAttribute("aria-selected", String(box.checked));
  const head = find("[data-select-all]"), notice = document.getElementById("all-notice");
  head.checked = Boolean(some.length) && some.length === every.length;
  head.indeterminate = Boolean(some.length) && !head.checked;
  notice.hidden = !head.checked;
  notice.firstElementChild.hidden = chosen.all;
  notice.lastElementChild.hidden = !chosen.all;
  bar.hidden = !some.length;
  const total = document.getElementById("count")?.textContent.match(/[\d,]+/)?.[0];
  find("[data-count]", bar).textContent = chosen.all ? `All ${total ?? "that match"}` : some.length.toLocaleString("en");
  const filter = new URLSearchParams(location.search).get("filter") ?? "";
  const ids = some.map((box) => box.value).join(",");
  for (const link of bar.querySelectorAll("[data-act]")) {
    const asks = chosen.all ? { action: link.dataset.act, filter } : { action: link.dataset.act, ids, back: filter };
    link.href = `${link.dataset.href}?${new URLSearchParams(asks)}`;
  }
  const said = chosen.all ? filter : `id:${ids}`;
  find(".command code", bar).textContent = `onceward retry --filter '${said.replaceAll("'", "'\\''")}'`;
}

document.addEventListener("change", (event) => {
  if (closest(event, "[data-select-all]")) for (const box of boxes()) box.checked = event.target.checked;
  else if (!closest(event, "[data-select]")) return;
  chosen.last = event.target;
  choose();
});

document.addEventListener("click", (event) => {
  const box = closest(event, "[data-select]");
  if (box && event.shiftKey) range(box, box.checked);
  if (closest(event, "[data-all]")) { chosen.all = true; choose(); }
  if (closest(event, "[data-only]")) { chosen.all = false; choose(); }
  if (closest(event, "[data-clear]")) { for (const one of boxes()) one.checked = false; choose(); }
});

function range(box, on) {
  const all = boxes(), from = all.indexOf(chosen.last), to = all.indexOf(box);
  if (from < 0) return;
  for (const one of all.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = on;
  choose();
}

document.addEventListener("onceward:range", (event) => { event.detail.checked = true; range(event.detail, true); choose(); });
document.addEventListener("onceward:all", () => {
  for (const box of boxes()) box.checked = true;
  chosen.all = true;
  choose();
});
document.addEventListener("onceward:refreshed", choose);
choose();
