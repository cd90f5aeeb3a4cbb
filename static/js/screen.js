// Replaces the shown screen with a newer one.
//
// A screen is a record: { name: text, ... } and { name: [record, ...] } for lists, whose records have
// a `key`. A text goes to elements with data-cell="name", and to attributes named by
// data-bind="attribute:name ...". A list goes to the element with data-list="name": its children carry
// data-key, and its <template> is the pattern of a new row. A name that the page does not show is skipped.

import { write } from "./times.js";

const BINDABLE = new Set(["action", "data-lit", "data-size", "data-tone", "href", "max", "points", "title", "value", "width", "x"]);
const ADDRESSES = new Set(["action", "href"]);

/** Show `record` in `root`, a row (or the whole page). */
export function show(root, record) {
  for (const element of own(root, "[data-cell]")) {
    const text = record[element.dataset.cell];
    if (typeof text === "string") write(element, text);
  }
  for (const element of own(root, "[data-bind]")) bind(element, record);
  for (const list of own(root, "[data-list]")) {
    const rows = record[list.dataset.list];
    if (Array.isArray(rows)) showRows(list, rows);
  }
}

/** Return the elements of this row (or page) that do not belong to a row inside it. */
function own(root, selector) {
  const row = root.closest("[data-key]");
  return [root, ...root.querySelectorAll(selector)].filter(
    (element) => element.matches(selector) && element.closest("[data-key]") === row,
  );
}

function bind(element, record) {
  for (const pair of element.dataset.bind.split(" ")) {
    const [attribute, name] = pair.split(":");
    const text = record[name];
    if (typeof text !== "string" || !BINDABLE.has(attribute)) continue;
    // Only addresses of this site: nothing that was crawled can become a script or lead away.
    if (ADDRESSES.has(attribute) && !/^\/(?!\/)/.test(text)) continue;
    if (element.getAttribute(attribute) !== text) element.setAttribute(attribute, text);
  }
}

function showRows(list, records) {
  const template = list.querySelector(":scope > template");
  const shown = new Map();
  for (const row of list.querySelectorAll(":scope > [data-key]")) shown.set(row.dataset.key, row);
  let previous = template;
  for (const record of records) {
    let row = shown.get(record.key);
    shown.delete(record.key);
    if (!row) {
      row = template.content.firstElementChild.cloneNode(true);
      row.dataset.key = record.key;
    }
    show(row, record);
    // A moved row loses the focus of its button. So if a row has the focus, the other rows move around it.
    if (row.contains(document.activeElement)) {
      while (previous.nextElementSibling !== row) row.after(previous.nextElementSibling);
    } else if (previous.nextElementSibling !== row) previous.after(row);
    previous = row;
  }
  for (const row of shown.values()) row.remove();
}
