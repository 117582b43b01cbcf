// Dialogs that stand in the part of a page that is drawn anew: one that opens leaves it first, or it would vanish.
"use strict";

document.addEventListener("click", (event) => {
  const opener = event.target instanceof Element ? event.target.closest("[data-opens]") : null;
  const dialog = opener && document.querySelector(`#content dialog[id="${CSS.escape(opener.dataset.opens)}"]`);
  if (!dialog) return;
  dialog.dataset.left = "";
  document.body.append(dialog);
}, true);

// The fresh content brings each dialog again: the one that is open stays, of the others the fresh one does.
new MutationObserver(() => {
  for (const left of document.querySelectorAll("body > dialog[data-left]")) {
    const fresh = document.querySelector(`#content dialog[id="${CSS.escape(left.id)}"]`);
    (left.open ? fresh : left)?.remove();
  }
}).observe(document.getElementById("main"), { childList: true });
