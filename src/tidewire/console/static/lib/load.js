// The three load indices of a broker, as bars: how far, how grave, and in words.
import { duration, percent } from "./format.js";

const WARNING_AT = 0.9; // from here a broker tries to give clients away
const OVERLOAD_AT = 1;
const DELAY_S_LEAST = 1e-7; // the bar of the matching delay is logarithmic, from here ...
const DELAY_S_FULL = 1e-3; // ... to here

function utilisation(value) {
  const grade = value >= OVERLOAD_AT ? "over" : value >= WARNING_AT ? "high" : "fine";
  return { fill: Math.min(1, Math.max(0, value)), grade, text: percent(value) };
}

function delay(seconds) {
  const span = Math.log(DELAY_S_FULL / DELAY_S_LEAST);
  const fill = seconds > 0 ? Math.log(Math.max(seconds, DELAY_S_LEAST) / DELAY_S_LEAST) / span : 0;
  return { fill: Math.min(1, fill), grade: "plain", text: duration(seconds) };
}

const GRADE_WORDS = { over: "overloaded", high: "high", fine: "", plain: "" };

/** [{ key, short, name, fill (0 to 1), grade, text, words }] */
export function indicesOf(load) {
  const indices = [
    ["input", "in", "Input utilisation", utilisation, load?.inputUtilisation],
    ["output", "out", "Output utilisation", utilisation, load?.outputUtilisation],
    ["matching", "match", "Matching delay", delay, load?.matchingDelayS],
  ];
  return indices.map(([key, short, name, read, value]) => {
    const known = value !== null && value !== undefined;
    const index = known ? read(value) : { fill: 0, grade: "unknown", text: "–" };
    return { key, short, name, ...index, words: known ? GRADE_WORDS[index.grade] : "not known yet" };
  });
}
