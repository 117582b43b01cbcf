"use strict";
(() => {
  const root = document.documentElement, outline = document.getElementById("outline"), help = document.getElementById("help");
  const noted = [...document.querySelectorAll(".passage.has-notes")];
  const byId = (id) => document.getElementById(id);
  const stored = (value) => {
    try { return value === undefined ? localStorage.getItem("theme") : localStorage.setItem("theme", value); } catch { return null; }
  };
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const dress = (theme) => { if (theme) root.dataset.theme = theme; byId("theme").textContent = isDark() ? "Light" : "Dark"; };
  const turn = () => { dress(isDark() ? "light" : "dark"); stored(root.dataset.theme); };
  const isWide = () => matchMedia("(min-width: 60.01rem)").matches;
  const toggleOutline = () => {
    const open = isWide() ? !document.body.classList.toggle("shut") : outline.classList.toggle("open");
    byId("open-outline").setAttribute("aria-expanded", String(open));
    if (open) (outline.querySelector("[aria-current]") || outline.querySelector("a"))?.focus();
  };
  const toggleHelp = () => { help.hidden = !help.hidden; byId("open-help").setAttribute("aria-expanded", String(!help.hidden)); };
  let here = null;
  const stand = (passage) => {
    here?.classList.remove("here");
    here = passage;
    here.classList.add("here");
    here.scrollIntoView({ block: "start" });
  };
  const step = (by) => {
    const line = scrollY + innerHeight * 0.3, tops = noted.map((one) => one.getBoundingClientRect().top + scrollY);
    let at = here ? noted.indexOf(here) + by : by > 0 ? tops.findIndex((top) => top > line) : tops.findLastIndex((top) => top < scrollY);
    at = Math.max(0, Math.min(noted.length - 1, at));
    if (noted.length) stand(noted[at]);
  };
  const follow = (number) => (here || document.querySelector(".passage:target"))?.querySelectorAll(".notes a")[number - 1]?.click();
  const keys = { j: () => step(1), k: () => step(-1), b: () => history.back(), o: toggleOutline, d: turn, "?": toggleHelp };

  byId("open-outline").addEventListener("click", toggleOutline);
  byId("open-help").addEventListener("click", toggleHelp);
  byId("theme").addEventListener("click", turn);
  byId("open-outline").setAttribute("aria-expanded", String(isWide()));
  outline.addEventListener("click", (event) => { if (event.target.closest("a")) outline.classList.remove("open"); });
  addEventListener("hashchange", () => { here?.classList.remove("here"); here = null; });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
    if (event.key === "Escape") { help.hidden = true; outline.classList.remove("open"); return; }
    if (/^[1-9]$/.test(event.key)) { follow(Number(event.key)); return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  dress(stored());

  const links = new Map([...outline.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const headings = [...links.keys()].map(byId).filter(Boolean);
  let waiting = false;
  const mark = () => {
    waiting = false;
    let low = 0, high = headings.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (headings[middle].getBoundingClientRect().top < 90) low = middle + 1; else high = middle;
    }
    outline.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const link = links.get(headings[Math.max(0, low - 1)]?.id);
    if (!link) return;
    link.setAttribute("aria-current", "true");
    byId("where").textContent = link.dataset.path || link.textContent;
    const details = link.closest("details");
    if (details) details.open = true;
    if (!outline.matches(":hover, :focus-within")) {
      const box = link.getBoundingClientRect(), frame = outline.getBoundingClientRect();
      if (box.top < frame.top || box.bottom > frame.bottom) outline.scrollTop += box.top - frame.top - frame.height / 3;
    }
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });
  mark();
})();
