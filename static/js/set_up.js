// All pages follow the theme of the browser. Unfold would store another theme, and change it at Ctrl-E.
localStorage.removeItem("_x_adminTheme");
window.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "e") event.stopImmediatePropagation();
}, true);

// Unfold reads the theme of the browser only while a page loads.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
  document.documentElement.classList.toggle("dark", matches);
});

// Names for screen readers of the elements that unfold's pages show only as an icon.

const NAMES = {
  "#searchbar": "Search",
  "#searchbar-submit": "Search",
  "[x-on\\:click='showActions = !showActions']": "More",
};

document.addEventListener("DOMContentLoaded", () => {
  for (const [selector, name] of Object.entries(NAMES)) {
    for (const element of document.querySelectorAll(selector)) element.setAttribute("aria-label", name);
  }
  // A font draws each icon from a word, which screen readers must not read.
  for (const picture of document.querySelectorAll(".material-symbols-outlined")) {
    picture.setAttribute("aria-hidden", "true");
  }
});

// A refused form may be long, so the page scrolls to the first error and gives its field the focus.
addEventListener("load", () => {
  const error = document.querySelector("main .errorlist, main .errors");
  if (!error) return;
  error.closest("details")?.setAttribute("open", "");
  const row = error.closest(".field-row, .form-row, [class*='field-']") ?? error.parentElement;
  row.scrollIntoView({ block: "center" });
  row.querySelector("input:not([type=hidden]), select, textarea")?.focus({ preventScroll: true });
});
