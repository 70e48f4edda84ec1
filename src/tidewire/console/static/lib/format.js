// Numbers as people read them. Short forms for the eye, long ones for the ear.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const STEPS = ["", " k", " M", " G", " T"];

/** 0, 7.3, 412, 1.24 k, 3.4 M */
export function short(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (number === 0) return "0";
  let step = 0;
  let scaled = Math.abs(number);
  while (scaled >= 999.5 && step < STEPS.length - 1) {
    scaled /= 1000;
    step += 1;
  }
  if (scaled < 0.05) return number < 0 ? "> −0.1" : "< 0.1";
  const digits =
    scaled >= 99.95 || (step === 0 && Number.isInteger(scaled)) ? 0 : scaled >= 9.995 || step === 0 ? 1 : 2;
  return (number < 0 ? "−" : "") + scaled.toFixed(digits) + STEPS[step];
}

export const perSecond = (number) => (number === null || number === undefined ? "–" : `${short(number)}/s`);
export const count = (number) => (Number.isFinite(number) ? whole.format(number) : "–");

export function bytes(number) {
  return number === null || number === undefined ? "–" : `${short(number)}${number >= 999.5 ? "B" : " B"}`;
}

/** 0.4 µs, 12 µs, 3.2 ms, 1.5 s */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  for (const [unit, size] of [
    ["s", 1],
    ["ms", 1e-3],
    ["µs", 1e-6],
  ]) {
    if (seconds >= size * 0.9995 || unit === "µs") {
      const scaled = seconds / size;
      return `${scaled === 0 ? 0 : scaled.toFixed(scaled >= 99.5 ? 0 : scaled >= 9.95 ? 1 : 2)} ${unit}`;
    }
  }
}

export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const scaled = share * 100;
  if (scaled === 0) return "0 %";
  if (scaled < 0.1) return "< 0.1 %";
  return `${scaled.toFixed(scaled >= 9.95 ? 0 : 1)} %`;
}

export const clock = (unixSeconds) => new Date(unixSeconds * 1000).toLocaleTimeString("en-GB");
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

const names = new Intl.Collator("en", { numeric: true });
export const byName = (a, b) => names.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
