// The form of a new job: shows the next starts, checks the address, and hides fields that do not apply.

const WAIT = 250; // milliseconds after the last change before the server is asked

const form = document.querySelector("form:has(.first-job)");
const coming = form.querySelector("[data-coming]");
const check = form.querySelector("[data-check]");
const field = (name) => form.elements.namedItem(name);
const rowOf = (name) => field(name).closest(".field-row, [class*='field-']");

let lastRequest = 0;
let waiting = null;

async function showStarts() {
  const every = field("every").value;
  const isSimple = ["hour", "day", "week"].includes(every);
  rowOf("at").hidden = rowOf("zone").hidden = !isSimple;
  rowOf("weekday").hidden = every !== "week";
  coming.hidden = !isSimple;
  if (!isSimple) return;
  const request = ++lastRequest;
  const address = new URL(coming.dataset.coming, location.href);
  for (const name of ["every", "at", "weekday", "zone"]) address.searchParams.set(name, field(name).value);
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok || request !== lastRequest) return;
  const { starts, problems } = await answer.json();
  coming.querySelector("ol").replaceChildren(
    ...[...problems, ...starts].map((text) => {
      const line = document.createElement("li");
      line.textContent = text;
      return line;
    }),
  );
}

async function checkAddress() {
  const button = check.querySelector("button");
  const list = check.querySelector("dl");
  button.disabled = true;
  list.replaceChildren();
  try {
    const answer = await fetch(check.dataset.check, { method: "POST", body: new FormData(form) });
    const { tone, lines } = await answer.json();
    list.dataset.tone = tone;
    for (const [name, text] of lines) {
      for (const [tag, content] of [["dt", name], ["dd", text]]) {
        const part = document.createElement(tag);
        part.textContent = content;
        list.append(part);
      }
    }
  } catch {
    list.textContent = list.dataset.failed;
  } finally {
    button.disabled = false;
  }
}

function prepare() {
  // A new form begins in the time zone of its user.
  const zone = field("zone");
  if (zone.value === zone.defaultValue && zone.value === "UTC" && !form.querySelector(".errorlist")) {
    zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  }
  for (const name of ["every", "at", "weekday", "zone"]) {
    field(name).addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(showStarts, WAIT);
    });
  }
  check.hidden = false;
  check.querySelector("button").addEventListener("click", checkAddress);
  showStarts();
}

prepare();
