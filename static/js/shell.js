// The frame of all pages: messages that go, local times, the palette.

import { showTimes } from "./times.js";
import { preparePalette } from "./palette.js";

const READ = 8000; // milliseconds that a good message stays
const LASTING = /\b(warning|error)\b/;

function prepareMessages() {
  for (const message of document.querySelectorAll(".message:has([data-closes-message])")) {
    const close = message.querySelector("[data-closes-message]");
    close.hidden = false;
    close.addEventListener("click", () => message.remove());
    if (LASTING.test(message.className)) continue;
    // The user may read a message under the pointer, or with the focus on its button.
    const end = () => (message.matches(":hover, :focus-within") ? setTimeout(end, READ) : message.remove());
    setTimeout(end, READ);
  }
}

prepareMessages();
preparePalette();
showTimes();
