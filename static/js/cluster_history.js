// Shows the cluster at another minute without loading the page again: a slider over the day, and a button to play it.
//
// Without scripts, the links and the form of the page do the same.

import { showTimes } from "./times.js";

const PAUSE = 700; // milliseconds a minute while it plays

const form = document.querySelector("form[data-minutes]");
const then = document.querySelector("[data-then]");
const line = form.querySelector("[data-slider]");
const slider = line.querySelector("input");
const play = line.querySelector("button");
const clock = form.querySelector("[data-clock]");
const field = form.elements.namedItem("at");

let lastRequest = 0;
let playing = null;

const two = (number) => String(number).padStart(2, "0");
const clockOf = (minute) => `${two(Math.floor(minute / 60))}:${two(minute % 60)}`;

function showClock(minute) {
  const time = clockOf(minute);
  clock.textContent = time;
  slider.setAttribute("aria-valuetext", time);
  field.value = `${slider.dataset.day}T${time}`;
}

async function show(minute) {
  showClock(minute);
  const request = ++lastRequest;
  const query = new URLSearchParams(location.search);
  query.set("at", `${slider.dataset.day}T${clockOf(minute)}`);
  // People copy the address, so its colons stay readable.
  const address = `?${query}`.replaceAll("%3A", ":");
  const answer = await fetch(address);
  if (!answer.ok || request !== lastRequest) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const shown = page.querySelector("[data-then]");
  // A page without this element is the login page.
  if (!shown) return location.assign(address);
  then.replaceChildren(...shown.childNodes);
  form.querySelector(".steps").replaceWith(page.querySelector("form[data-minutes] .steps"));
  history.replaceState(null, "", address);
  showTimes();
}

function stop() {
  clearTimeout(playing);
  playing = null;
  play.textContent = play.dataset.play;
  play.setAttribute("aria-pressed", "false");
}

async function advance() {
  if (slider.valueAsNumber >= Number(slider.max)) return stop();
  slider.valueAsNumber += 1;
  await show(slider.valueAsNumber);
  if (playing !== null) playing = setTimeout(advance, PAUSE);
}

slider.addEventListener("input", () => showClock(slider.valueAsNumber));
slider.addEventListener("change", () => {
  stop();
  show(slider.valueAsNumber);
});
play.addEventListener("click", () => {
  if (playing !== null) return stop();
  play.textContent = play.dataset.stop;
  play.setAttribute("aria-pressed", "true");
  playing = setTimeout(advance, 0);
});
line.hidden = false;
