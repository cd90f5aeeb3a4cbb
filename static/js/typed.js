// Keeps the text of a form that was sent after its session had ended, and fills it in after the login.
//
// A form that is sent leaves its changed fields in this tab (sessionStorage) until the next page. If that page is a
// login, the fields wait. The page of the form fills them in, for the same user, and first adds the rows that the user
// had added to its lists. Each other page drops the fields.
// Passwords, files and hidden fields are never kept.

const KEY = "crawlctl.typed";
const LONGEST_WAIT = 3600000; // milliseconds
const LEFT_OUT = new Set(["password", "file", "hidden", "submit", "button", "reset", "image"]);
// Hidden fields with the number of rows of a list, to which scripts of the page add rows.
const LENGTH = /-(TOTAL_FORMS|count)$/;
const MOST_ADDED = 200;
const SECRET = /password|one-time-code|cc-/;

/** Fill in the text that waits for this page, and keep that of a form that is sent from here. */
export function keepTyped() {
  const note = document.querySelector("[data-typed]");
  const kept = take();
  if (!note) {
    // A page without a user is a login: text that was just sent waits until the login has succeeded.
    if (kept) keep({ ...kept, waits: true });
    return;
  }
  // Without a login in between, the server has the text, and shows it again if the form has an error.
  if (kept?.waits && isForHere(kept, note)) whenLoaded(() => fill(kept, note));
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || !isPost(form)) return;
    const fields = typedInto(form);
    if (!fields.length) return;
    const lengths = lengthsOf(form);
    keep({ user: note.dataset.user, page: here(), form: placeOf(form), at: Date.now(), fields, lengths });
  });
}

const here = () => `${location.pathname}${location.search}`;
// A field may have the name of a property of its form, such as `method`.
const isPost = (form) => form.getAttribute("method")?.toLowerCase() === "post";
const forms = () => [...document.querySelectorAll("form")].filter(isPost);
const placeOf = (form) => ({ action: form.getAttribute("action") ?? "", number: forms().indexOf(form) });
const isForHere = (kept, note) =>
  kept.user === note.dataset.user && kept.page === here() && Date.now() - kept.at < LONGEST_WAIT;

/** Call a function when the scripts that add rows are ready. */
function whenLoaded(call) {
  if (document.readyState === "complete") call();
  else window.addEventListener("load", call);
}

/** Return the kept text, and remove it. */
function take() {
  try {
    const text = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    return text && JSON.parse(text);
  } catch {
    return null;
  }
}

function keep(typed) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(typed));
  } catch {
    // A browser that stores nothing, or a text beyond its limit.
  }
}

/** Return the fields that the user changed. A form with errors shows what was typed before, so all its fields count. */
function typedInto(form) {
  const isSentBack = form.querySelector("[aria-invalid=true], .errorlist, .error") !== null;
  const seen = new Map();
  const fields = [];
  for (const field of form.elements) {
    if (!field.name) continue;
    const number = seen.get(field.name) ?? 0;
    seen.set(field.name, number + 1);
    if (LEFT_OUT.has(field.type) || SECRET.test(field.autocomplete ?? "") || field.localName === "button") continue;
    // The address of the page has such a choice already (redraw.js).
    if ("redraws" in field.dataset) continue;
    if (isSentBack || isChanged(field)) fields.push([field.name, number, valueOf(field)]);
  }
  return fields;
}

function isChanged(field) {
  if (field.localName === "select") return [...field.options].some((one) => one.selected !== one.defaultSelected);
  return isBox(field) ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
}

const isBox = (field) => field.type === "checkbox" || field.type === "radio";

function valueOf(field) {
  if (field.localName === "select") return [...field.selectedOptions].map((one) => one.value);
  return isBox(field) ? field.checked : field.value;
}

const lengthsOf = (form) =>
  [...form.elements]
    .filter((field) => field.type === "hidden" && LENGTH.test(field.name))
    .map((field) => [field.name, Number(field.value)]);

/** Add rows until each list is as long as it was. Rows have lists, too, which come after them. */
function lengthen(form, lengths) {
  for (const [name, length] of lengths) {
    const count = form.elements.namedItem(name);
    const button = count
      ?.closest("[data-records], .formset-wrapper")
      ?.querySelector(":scope > p[data-offered] button, .add-row");
    if (!button) continue;
    const added = Math.min(length - Number(count.value), MOST_ADDED);
    for (let row = 0; row < added; row += 1) button.click();
  }
}

function fill({ form: { action, number }, fields, lengths }, note) {
  const all = forms();
  const form = [all[number], ...all].find((one) => one && (one.getAttribute("action") ?? "") === action);
  if (form) lengthen(form, lengths ?? []);
  let missing = 0;
  for (const [name, place, value] of fields) {
    const field = form && [...form.elements].filter((one) => one.name === name)[place];
    if (!field || LEFT_OUT.has(field.type)) {
      missing += 1;
      continue;
    }
    if (field.localName === "select") for (const one of field.options) one.selected = value.includes(one.value);
    else if (isBox(field)) field.checked = value;
    else field.value = value;
    for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    for (const event of ["input", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
  }
  note.className = "message warning";
  note.textContent = missing ? note.dataset.partly : note.dataset.typed;
  note.hidden = false;
}
