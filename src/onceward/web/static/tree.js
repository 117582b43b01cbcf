// The drawn tree: looked at differently without leaving the page, and moved through with the arrow keys.
"use strict";

const treeFrame = () => document.querySelector("[data-keys-tree]");

// Fetches the page at an address and puts its tree, and its dialogs, in place of the present ones.
async function lookAt(address, keep) {
  const frame = treeFrame();
  const left = frame?.scrollLeft ?? 0, top = frame?.scrollTop ?? 0;
  let page;
  try {
    const answer = await fetch(address, { headers: { "X-Refresh": "1" } });
    if (!answer.ok) { location.href = address; return; }
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch { location.href = address; return; }
  const fresh = page.getElementById("content"), old = document.getElementById("content");
  if (!fresh || !old) { location.href = address; return; }
  old.replaceWith(fresh);
  const now = treeFrame();
  if (now) { now.scrollLeft = left; now.scrollTop = top; }
  if (keep) focusNode(keep);
}

function focusNode(id) {
  document.querySelector(`[data-node="${CSS.escape(id)}"]`)?.focus({ preventScroll: false });
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[data-tree]") : null;
  if (!link) return;
  const address = link.getAttribute("href");
  if (!address.includes("/lineages/")) return;
  event.preventDefault();
  history.pushState(null, "", address);
  lookAt(address.split("#")[0], link.dataset.node ?? link.dataset.unfolds ?? link.dataset.folds);
});

addEventListener("popstate", () => lookAt(location.href));

// ---- arrows: to the parent, to the first child, up and down by what is seen

function places() {
  return [...document.querySelectorAll(".tree a.node")].map((node) => {
    const box = node.querySelector(".node__box").getBBox();
    return { node, x: box.x, y: box.y };
  });
}

function nearest(from, fits, distance) {
  let best = null;
  for (const one of places()) {
    if (one.node === from.node || !fits(one)) continue;
    if (!best || distance(one) < distance(best)) best = one;
  }
  best?.node.focus();
}

function move(key, node) {
  const box = node.querySelector(".node__box").getBBox();
  const from = { node, x: box.x, y: box.y };
  const across = (one) => Math.abs(one.x - from.x) + 3 * Math.abs(one.y - from.y);
  const along = (one) => Math.abs(one.y - from.y) + 3 * Math.abs(one.x - from.x);
  if (key === "ArrowRight") nearest(from, (one) => one.x > from.x && one.y >= from.y, across);
  if (key === "ArrowLeft") nearest(from, (one) => one.x < from.x && one.y <= from.y, across);
  if (key === "ArrowDown") nearest(from, (one) => one.y > from.y, along);
  if (key === "ArrowUp") nearest(from, (one) => one.y < from.y, along);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) document.querySelector("[data-unpeeks]")?.click();
  const node = document.activeElement?.closest?.(".tree a.node");
  if (!node) return;
  if (event.key.startsWith("Arrow")) { event.preventDefault(); move(event.key, node); }
  const id = node.dataset.node;
  if ((event.key === "+" || event.key === "-") && id) {
    const toggle = document.querySelector(`[data-${event.key === "+" ? "unfolds" : "folds"}="${CSS.escape(id)}"]`);
    if (toggle) { event.preventDefault(); toggle.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true })); }
  }
});

// ---- a page that was drawn anew has lost its focus: the node gets it back

let focused = null;
document.addEventListener("focusin", (event) => { focused = event.target.closest?.(".tree a.node")?.dataset.node ?? null; });
document.addEventListener("onceward:refreshed", () => {
  if (focused && document.activeElement === document.body) focusNode(focused);
});
