// Sets the theme before the page is drawn: the one that was chosen here last, else the one of the system.
try {
  const chosen = localStorage.getItem("onceward-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing follows its system */ }
document.documentElement.classList.add("scripted");
