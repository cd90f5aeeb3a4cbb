// Keeps an open page up to date: follows the topic of the page (body[data-topic]) over one web socket.
//
// The server first sends the whole screen, then its changes at most every 1.6 seconds, and a beat every two seconds.
// While the tab is hidden, this script tells the server, which then sends nothing. Silence means a cut connection:
// a banner says that the page is old, until a new connection has brought the present screen.

import { show } from "./screen.js";

const SILENCE = 4500; // milliseconds without a frame from the server: two beats are missing
const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 8000;
const REFUSED = new Set([4401, 4403]); // logged out, or without a necessary role

const banner = document.getElementById("banner");
let socket = null;
let pause = FIRST_PAUSE;
let silence = null;
let isGone = false; // the object that the page shows was deleted

function connect() {
  const address = new URL("/live/", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const opened = new WebSocket(address);
  socket = opened;
  listenForSilence();
  opened.addEventListener("open", () => {
    const topic = document.body.dataset.topic;
    opened.send(JSON.stringify({ type: "follow", topic, language: document.documentElement.lang, visible: isVisible() }));
  });
  opened.addEventListener("message", (event) => receive(JSON.parse(event.data)));
  opened.addEventListener("close", (event) => {
    // Ignore the end of a replaced socket: its successor serves the page.
    if (socket !== opened) return;
    clearTimeout(silence);
    if (REFUSED.has(event.code)) return warn("ended");
    warn("cut");
    setTimeout(connect, pause * (0.75 + Math.random() / 2));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  });
}

function receive(frame) {
  listenForSilence();
  if (frame.type === "screen") {
    pause = FIRST_PAUSE;
    warn(null);
    show(document.body, frame.cells);
  } else if (frame.type === "gone") {
    isGone = true;
    warn("gone");
  } else if (frame.type === "beat" && !isGone) {
    warn(frame.stalled ? "stalled" : null);
  }
}

function listenForSilence() {
  clearTimeout(silence);
  if (isVisible()) silence = setTimeout(giveUp, SILENCE);
}

/** Abandon a silent connection, because it may never report its end. */
function giveUp() {
  const silent = socket;
  warn("cut");
  connect();
  silent.close();
}

function warn(reason) {
  banner.hidden = reason === null;
  banner.textContent = reason === null ? "" : banner.dataset[reason];
}

function isVisible() {
  return document.visibilityState === "visible";
}

document.addEventListener("visibilitychange", () => {
  if (socket?.readyState !== WebSocket.OPEN) return;
  socket.send(JSON.stringify({ type: isVisible() ? "visible" : "hidden" }));
  listenForSilence();
});

connect();
