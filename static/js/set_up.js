// Names for what unfold's pages tell by a picture alone, for who cannot see it.

const NAMES = {
  "#searchbar": "Search",
  "#searchbar-submit": "Search",
  "[x-on\\:click='showActions = !showActions']": "More",
};

document.addEventListener("DOMContentLoaded", () => {
  for (const [selector, name] of Object.entries(NAMES)) {
    for (const element of document.querySelectorAll(selector)) element.setAttribute("aria-label", name);
  }
  // A font draws the pictures, each from a word that nobody is to read.
  for (const picture of document.querySelectorAll(".material-symbols-outlined")) {
    picture.setAttribute("aria-hidden", "true");
  }
});
