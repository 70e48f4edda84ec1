// A small chart of the last minutes. The canvas is for the eye; its label says the same in words.
import { theme } from "../lib/theme.js";
import { useStore } from "../lib/store.js";
import { html, useEffect, useRef } from "../lib/ui.js";
import { short } from "../lib/format.js";
import uPlot from "../vendor/uplot/uPlot.esm.js";

const SPAN_S_LEAST = 30;
const FONT = "11px system-ui, sans-serif";

// A canvas knows no CSS properties: the element is painted with one, and asked what came of it.
function colour(element, token) {
  element.style.color = `var(${token})`;
  return getComputedStyle(element).color;
}

function optionsOf(element, { series, height, hasAxes }) {
  const ink = colour(element, "--ink-soft");
  const grid = { stroke: colour(element, "--line"), width: 1 };
  const axis = { stroke: ink, font: FONT, grid, ticks: { show: false } };
  return {
    width: Math.max(40, element.clientWidth),
    height,
    padding: hasAxes ? [8, 18, 0, 0] : [3, 0, 3, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true, range: spanOf }, y: { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.15)] } },
    axes: hasAxes
      ? [
          { ...axis, grid: { show: false }, size: 28, splits: marks, values: (plot, times) => times.map(ago(plot)) },
          { ...axis, size: 48, space: 34, values: (_, values) => values.map(short) },
        ]
      : [{ show: false }, { show: false }],
    series: [
      {},
      ...series.map(({ label, token, isFilled, dash }) => ({
        label,
        stroke: colour(element, token),
        fill: isFilled ? colour(element, `${token}-faint`) : undefined,
        width: 1.75,
        dash,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

// From the points themselves: for a single one, uPlot would propose a whole day.
function spanOf({ data: [times] }) {
  const newest = times.at(-1) ?? 0;
  return [Math.min(times[0] ?? 0, newest - SPAN_S_LEAST), newest];
}

// Round distances from the newest point, not round times of day: the marks stand still while time goes on.
function marks(plot) {
  const { min, max } = plot.scales.x;
  const step = max - min > 120 ? 60 : max - min > 40 ? 30 : 10;
  return Array.from({ length: Math.floor((max - min) / step) + 1 }, (_, at) => max - at * step).reverse();
}

function ago(plot) {
  return (time) => {
    const seconds = Math.round(plot.scales.x.max - time);
    return seconds === 0 ? "now" : seconds % 60 ? `−${seconds} s` : `−${seconds / 60} min`;
  };
}

/** series: [{ label, values, token (a CSS property), isFilled, dash }]; label: what it shows, in words. */
export function Chart({ times, series, label, height = 40, hasAxes = false }) {
  const element = useRef(null);
  const plot = useRef(null);
  const { isDark } = useStore(theme);
  const shape = JSON.stringify([isDark, height, hasAxes, series.map(({ label: name, token }) => [name, token])]);
  useEffect(() => {
    const frame = element.current;
    const drawn = new uPlot(optionsOf(frame, { series, height, hasAxes }), [[], ...series.map(() => [])], frame);
    const watcher = new ResizeObserver(() => drawn.setSize({ width: Math.max(40, frame.clientWidth), height }));
    watcher.observe(frame);
    plot.current = drawn;
    return () => {
      watcher.disconnect();
      drawn.destroy();
    };
  }, [shape]);
  useEffect(() => {
    plot.current.setData([times, ...series.map(({ values }) => values)]);
  });
  return html`<div class="chart" ref=${element} role="img" aria-label=${label}></div>`;
}
