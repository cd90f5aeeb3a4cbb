// Draws the charts of reports and hosts: figure[data-chart], by Chart.js (a file of django-unfold's package).
//
// data-chart: { labels: [text], series: [{ label: text, values: [number], tone: name?, line? }], stacked?,
// horizontal? }
// With `horizontal`, the bars are horizontal. Moments in labels are shown in local time.
// A series with `line` is a limit: a line beside the bars, with a gap for each null.
// The table below a chart has all its numbers, except those of a timeline. So the page works without scripts.

import { inLocalTime } from "./times.js";

// A series without a tone has the tone of single numbers. A chart has at most one such series.
const TONE = "working";
// Series of one tone differ in their strength: alpha, in hexadecimal digits.
const STRENGTHS = ["", "b3", "80", "59"];
const HORIZONTAL_BAR = 26; // pixels a bar
const AROUND = 90; // axis and legend

const BARS = { barPercentage: 0.9, categoryPercentage: 0.95 };
// A limit that applied to one bar alone is a dash.
const LIMIT = { type: "line", stepped: "middle", borderWidth: 1.5, pointStyle: "line", pointRadius: 3, order: -1 };

const drawn = new Map();

/** True if the bars have whole numbers only, so that a fraction on their axis would mean nothing. */
const areCounts = (series) => series.filter(({ line }) => !line).every(({ values }) => values.every(Number.isInteger));

function draw(figure) {
  const { labels: moments, series, stacked = false, horizontal = false } = JSON.parse(figure.dataset.chart);
  const labels = moments.map(inLocalTime);
  const style = getComputedStyle(document.documentElement);
  const colour = (tone) => style.getPropertyValue(`--${tone === "quiet" ? "line" : tone}`);
  figure.hidden = false;
  if (horizontal) figure.style.height = `${Math.max(5, labels.length) * HORIZONTAL_BAR + AROUND}px`;
  const seen = new Map();
  const shade = (tone) => {
    const place = seen.get(tone) ?? 0;
    seen.set(tone, place + 1);
    return `${colour(tone).trim()}${STRENGTHS[Math.min(place, STRENGTHS.length - 1)]}`;
  };
  const axis = { stacked, grid: { color: colour("line") }, ticks: { color: colour("soft"), maxRotation: 0, autoSkipPadding: 16 } };
  const names = { ...axis, grid: { display: false } };
  const shorten = (value) => {
    const label = labels[value] ?? "";
    return label.length > 32 ? `${label.slice(0, 31)}…` : label;
  };
  if (horizontal) names.ticks = { ...names.ticks, autoSkip: false, callback: shorten };
  const numbers = { ...axis, beginAtZero: true };
  if (areCounts(series)) numbers.ticks = { ...numbers.ticks, precision: 0 };
  drawn.get(figure)?.destroy();
  drawn.set(
    figure,
    new Chart(figure.querySelector("canvas"), {
      type: "bar",
      data: {
        labels,
        datasets: series.map(({ label, values, tone, line = false }) => ({
          label,
          data: values,
          backgroundColor: shade(tone ?? TONE),
          ...(line ? { ...LIMIT, borderColor: colour(tone) } : BARS),
        })),
      },
      options: {
        animation: false,
        locale: document.documentElement.lang,
        maintainAspectRatio: false,
        indexAxis: horizontal ? "y" : "x",
        scales: horizontal ? { x: numbers, y: names } : { x: names, y: numbers },
        plugins: { legend: { position: "bottom", labels: { color: colour("text"), boxWidth: 12 } } },
      },
    }),
  );
}

function drawAll() {
  for (const figure of document.querySelectorAll("figure[data-chart]")) draw(figure);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
