// Draws a form again after a choice that its fields depend on: a select with data-redraws.
//
// The request for the page contains the choice and the typed name in its address.
// Without scripts, saving does the same.

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
