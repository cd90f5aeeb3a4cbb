// Draws a form anew when what its fields depend on is chosen: a select with data-redraws.
//
// The page is asked for with the choice, and the name that was typed, in its address; without scripts,
// saving does the same.

for (const select of document.querySelectorAll("select[data-redraws]")) {
  const shown = select.value;
  select.addEventListener("change", () => {
    if (select.value === shown) return;
    const address = new URL(window.location.href);
    address.searchParams.set(select.name, select.value);
    address.searchParams.set("name", select.form.elements.namedItem("name").value);
    window.location.assign(address);
  });
}
