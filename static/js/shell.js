// The frame of all pages: messages that disappear, local times, the palette, and forms, which are sent once and keep
// their text.

import { showTimes } from "./times.js";
import { preparePalette } from "./palette.js";
import { keepTyped } from "./typed.js";

const READ = 8000; // milliseconds for which a message about a success stays
const UNANSWERED = 10000; // milliseconds after which a form may be sent again
const LASTING = /\b(warning|error)\b/;

function prepareMessages() {
  for (const message of document.querySelectorAll(".message:has([data-closes-message])")) {
    const close = message.querySelector("[data-closes-message]");
    close.hidden = false;
    close.addEventListener("click", () => message.remove());
    if (LASTING.test(message.className)) continue;
    // A message under the pointer, or with the focus on its button, stays: the user may still read it.
    const end = () => (message.matches(":hover, :focus-within") ? setTimeout(end, READ) : message.remove());
    setTimeout(end, READ);
  }
}

/** Send a form once: a second click before the next page has loaded would repeat the request. */
function sendOnce() {
  let sent = new WeakSet();
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.getAttribute("method")?.toLowerCase() !== "post") return;
    if (sent.has(form)) return event.preventDefault();
    sent.add(form);
    renewToken(form);
    // The answer may never come, so the form can be sent again after a while.
    setTimeout(() => sent.delete(form), UNANSWERED);
  });
  // The browser may show this page again without loading it, for example after Back.
  window.addEventListener("pageshow", () => (sent = new WeakSet()));
}

/** Give a form the token of the present login: a login in another tab replaces the token of this page. */
function renewToken(form) {
  const cookie = /(?:^|; )csrftoken=([^;]+)/.exec(document.cookie);
  const field = form.elements.namedItem("csrfmiddlewaretoken");
  if (cookie && field) field.value = cookie[1];
}

prepareMessages();
preparePalette();
sendOnce();
keepTyped();
showTimes();
