// Chooses all rows of a list: the box in the header checks or clears the boxes of the rows, and shows their state.

for (const head of document.querySelectorAll("input[data-chooses]")) {
  const boxes = [...document.querySelectorAll(`input[type=checkbox][name="${head.dataset.chooses}"]`)];
  head.hidden = boxes.length === 0;
  const show = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    head.checked = chosen > 0 && chosen === boxes.length;
    head.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  head.addEventListener("change", () => {
    for (const box of boxes) box.checked = head.checked;
  });
  for (const box of boxes) box.addEventListener("change", show);
  show();
}
