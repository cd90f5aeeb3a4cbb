// Shows moments in the time zone of the browser, and UTC when they are pointed at.
//
// The server writes a moment in UTC, as `12:03:11` (of today) or `2030-12-02 22:00`: alone in a <time>, or inside the
// text of an element with data-moments. Without scripts it stays UTC.

const MOMENTS = /\b(?:(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?)|(\d\d:\d\d:\d\d))\b(?: UTC)?/g;

const two = (number) => String(number).padStart(2, "0");
const dateOf = (moment) => `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;

/** Show `text` in this element. Show moments in local time in a <time> or an element with data-moments. */
export function write(element, text) {
  if (element.localName === "time" || "moments" in element.dataset) {
    // The element shows local times, so the text of the server is kept for comparison.
    if (element.dataset.utc === text) return;
    element.dataset.utc = text;
    element.replaceChildren(...parts(text, element.localName === "time" ? element : null));
  } else if (element.textContent !== text) element.textContent = text;
}

function parts(text, time) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(MOMENTS)) {
    nodes.push(text.slice(end, found.index), clock(found, time ?? document.createElement("time"), time));
    end = found.index + found[0].length;
  }
  nodes.push(text.slice(end));
  return nodes.filter((node) => node !== "");
}

/** Return a text with its moments in local time. */
export const inLocalTime = (text) => parts(text, null).map((one) => one.textContent ?? one).join("");

// Set the attributes of the <time> `element`, and return the local time of its moment:
// as a text if the page shows the element already, otherwise as the element itself.
function clock([, day, clockOfDay, clockOfToday], element, isShown) {
  const date = day ?? new Date().toISOString().slice(0, 10);
  const utc = clockOfDay ?? clockOfToday;
  const moment = new Date(`${date}T${utc.length === 5 ? `${utc}:00` : utc}Z`);
  const seconds = utc.length === 8 ? `:${two(moment.getSeconds())}` : "";
  const shown = `${two(moment.getHours())}:${two(moment.getMinutes())}${seconds}`;
  const text = !day && dateOf(moment) === dateOf(new Date()) ? shown : `${dateOf(moment)} ${shown}`;
  element.dateTime = moment.toISOString();
  element.title = `${date} ${utc} UTC`;
  if (isShown) return text;
  element.textContent = text;
  return element;
}

export function showTimes() {
  for (const element of document.querySelectorAll("time, [data-moments]")) {
    // An element with elements inside, such as a link, is left as it is.
    if (!element.firstElementChild) write(element, element.textContent.trim());
  }
  const foot = document.querySelector("[data-times]");
  if (foot) foot.textContent = foot.dataset.times.replace("%s", Intl.DateTimeFormat().resolvedOptions().timeZone);
}
