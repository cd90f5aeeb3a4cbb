// Draws a form again after a choice that its fields depend on: a select with data-redraws.
//
// The request for the page contains the choice and the typed short fields in its address.
// Without scripts, saving does the same.

// Typed fields that stay: the name, and the short fields of a new job.
const KEPT = ["name", "addresses", "pace", "every", "at", "weekday", "zone"];

for (const select of document.querySelectorAll("select[data-redraws]")) {
  const shown = select.value;
  select.addEventListener("change", () => {
    if (select.value === shown) return;
    const address = new URL(window.location.href);
    address.searchParams.set(select.name, select.value);
    for (const name of KEPT) {
      const field = select.form.elements.namedItem(name);
      if (field) address.searchParams.set(name, field.value);
    }
    window.location.assign(address);
  });
}
