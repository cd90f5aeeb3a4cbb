// Adds an empty record to a list of records in a form: a copy of the last record, which is empty.
// Without scripts, the list ends with one empty record, and each save adds another.

const renamed = ["name", "id", "for", "data-record", "data-records"];

function addTo(list) {
  const count = list.querySelector(":scope > input[type=hidden]");
  const prefix = `${list.dataset.records}-`;
  const records = list.querySelectorAll(":scope > [data-record]");
  const copy = records[records.length - 1].cloneNode(true);
  const was = copy.dataset.record;
  for (const element of [copy, ...copy.querySelectorAll("*")]) {
    for (const attribute of renamed) {
      const value = element.getAttribute(attribute);
      if (!value) continue;
      const at = value.startsWith("id_") ? 3 : 0;
      if (!value.startsWith(was, at)) continue;
      element.setAttribute(attribute, value.slice(0, at) + prefix + count.value + value.slice(at + was.length));
    }
    if (element.matches("input:not([type=hidden]), textarea")) element.value = element.defaultValue;
    if (element.matches("input[type=checkbox]")) element.checked = false;
  }
  records[records.length - 1].after(copy);
  count.value = Number(count.value) + 1;
  copy.querySelectorAll("[data-records]").forEach(offer);
}

function offer(list) {
  const place = list.querySelector(":scope > p[hidden], :scope > p[data-offered]");
  place.hidden = false;
  place.dataset.offered = "";
  place.querySelector("button").addEventListener("click", () => addTo(list));
}

document.querySelectorAll("[data-records]").forEach(offer);
